"""Texts that are put together: f-strings, `%`, `format`."""

from __future__ import annotations

import re

from twice.audit.languages.python.values import Choice, Const, Instance, Piece, Text, Value, alternatives, origins_of


def text_value(text: str, line: int = 1) -> Text:
    """Return a known text as a value."""
    return Text(pieces=[Piece(text, [line] * (text.count("\n") + 1))])


def inlined(value: Value, line: int) -> list[Piece | Value]:
    """Return a value as pieces of a text."""
    first = next(iter(alternatives(value)), value)
    if isinstance(first, Text):
        first = _complete(value, _most_telling(value, first))
        if isinstance(value, Choice) and value.origins:
            return (
                [Value(origins=origins_of(value), name=value.name)]
                if first.plain is None
                else [Piece(first.plain, [line] * (first.plain.count("\n") + 1))]
            )
        if len(alternatives(value)) > 1 and origins_of(value):
            return [Value(origins=origins_of(value), name=value.name)]
        return list(first.pieces)
    if isinstance(first, Const) and first.value is not None and not isinstance(value, Choice):
        return [Piece(str(first.value), [line])]
    if isinstance(first, Instance) and first.kind == "path":
        return inlined(first.attributes["text"], line)
    return [value]


def _most_telling(value: Value, first: Text) -> Text:
    """Return the longest of several conditions: "1=1" of a full load says less than the one of the daily run."""
    texts = [one for one in alternatives(value) if isinstance(one, Text) and one.plain is not None]
    if first.plain is None or not any(" " in (one.plain or "") for one in texts):
        return first
    return max(texts, key=lambda one: len(one.plain or ""))


_GOES_ON = re.compile(r"(,|\band|\bor|\bunion(\s+all)?)\s*$", re.IGNORECASE)


def goes_on(text: Text) -> bool:
    """Return whether a text ends where more of the same must follow: in `AND`, or a comma."""
    last = text.pieces[-1] if text.pieces else None
    return isinstance(last, Piece) and bool(_GOES_ON.search(last.text))


def _complete(value: Value, chosen: Text) -> Text:
    """Return the last part of a list rather than one that is followed by a separator."""
    if isinstance(value, Choice) and goes_on(chosen):
        return next(
            (one for one in alternatives(value) if isinstance(one, Text) and one.pieces and not goes_on(one)), chosen
        )
    return chosen


def percent(text: Text, values: list[Value], mapping: dict[str, Value], line: int) -> Text:
    """Fill `%s` and `%(name)s`."""
    pieces: list[Piece | Value] = []
    waiting = list(values)
    for piece in text.pieces:
        if not isinstance(piece, Piece):
            pieces.append(piece)
            continue
        position = 0
        for match in re.finditer(r"%(?:\((\w+)\))?[-+0 #]*\d*(?:\.\d+)?[sdrif]|%%", piece.text):
            pieces.append(_cut(piece, position, match.start()))
            position = match.end()
            if match[0] == "%%":
                pieces.append(Piece("%", [line]))
                continue
            value = mapping.get(match[1]) if match[1] else (waiting.pop(0) if waiting else None)
            pieces.extend(inlined(value if value is not None else Value(name=match[1] or "value"), line))
        pieces.append(_cut(piece, position, len(piece.text)))
    return Text(pieces=pieces, column=text.column)


def format_text(text: Text, values: list[Value], keywords: dict[str, Value], line: int) -> Text:
    """Fill `{}` and `{name}` as str.format does."""
    pieces: list[Piece | Value] = []
    count = 0
    for piece in text.pieces:
        if not isinstance(piece, Piece):
            pieces.append(piece)
            continue
        position = 0
        for match in re.finditer(r"\{\{|\}\}|\{([\w.\[\]]*)(?:![rsa])?(?::[^{}]*)?\}", piece.text):
            pieces.append(_cut(piece, position, match.start()))
            position = match.end()
            if match[0] in {"{{", "}}"}:
                pieces.append(Piece(match[0][0], [line]))
                continue
            name = match[1]
            if name.isdigit() or not name:
                index = int(name) if name else count
                count += 1
                value = values[index] if index < len(values) else None
            else:
                value = keywords.get(name.split(".")[0].split("[")[0])
            pieces.extend(inlined(value if value is not None else Value(name=name or "value"), line))
        pieces.append(_cut(piece, position, len(piece.text)))
    return Text(pieces=pieces, column=text.column)


def _cut(piece: Piece, start: int, end: int) -> Piece:
    before = piece.text.count("\n", 0, start)
    text = piece.text[start:end]
    lines = piece.lines[before : before + text.count("\n") + 1] or piece.lines[-1:] or [1]
    return Piece(text, lines)
