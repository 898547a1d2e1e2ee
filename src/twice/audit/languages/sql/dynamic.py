"""SQL that a procedure puts together as a text and runs: EXEC (@sql), EXECUTE IMMEDIATE, EXECUTE format(…)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from twice.audit.expressions import Expr, Origin, OriginKind
from twice.audit.functions import CLOCKS
from twice.audit.languages.sql.sources import SqlText, hole_name
from twice.audit.places import Place

_STRINGS = frozenset({TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.HEREDOC_STRING})
_WRITES = re.compile(r"\s*(insert|delete|truncate|merge|update|drop|create|with|alter|copy)\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"%(?:\d+\$)?[IsL]")
_ENDS = frozenset({"USING", "INTO"})
_LONGEST = 50_000


@dataclass(frozen=True)
class Piece:
    """A part of a text: what is written on a line of the file, or a value that is put there."""

    text: str
    line: int
    value: Expr | None = None


@dataclass
class Texts:
    """The texts that variables hold until one of them is run."""

    held: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    def note(self, source: SqlText, chunk: Sequence[Token]) -> None:
        """Remember `SET @s = N'…'`, `DECLARE @s … = N'…'`, `s := '…'` and `PREPARE p FROM @s`."""
        head = chunk[0].text.upper()
        if head == "PREPARE" and len(chunk) > 3:
            self.held[chunk[1].text.lower()] = self._pieces(source, chunk[3:])
            return
        if head == "SELECT" and chunk[1:] and chunk[1].token_type is not TokenType.PARAMETER:
            return
        at = next(
            (
                index
                for index, token in enumerate(chunk)
                if token.token_type in {TokenType.EQ, TokenType.COLON_EQ} or (index and token.text.upper() == "DEFAULT")
            ),
            None,
        )
        if at is None or not any(token.token_type in _STRINGS for token in chunk[at:]):
            return
        self.held[_variable(chunk[:at])] = self._pieces(source, chunk[at + 1 :])

    def run(self, source: SqlText, chunk: Sequence[Token]) -> SqlText | None:
        """Return the SQL that EXEC or EXECUTE runs, if it is known and writes."""
        rest = [token for token in chunk[1:] if token.text.upper() not in {"IMMEDIATE", "SP_EXECUTESQL", "SYS"}]
        depth = 0
        for index, token in enumerate(rest):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0 and (token.token_type is TokenType.COMMA or token.text.upper() in _ENDS):
                rest = rest[:index]
                break
        formatted = bool(rest) and rest[0].text.upper() == "FORMAT"
        return _joined(source, self._pieces(source, rest[1:] if formatted else rest), formatted=formatted)

    def _pieces(self, source: SqlText, tokens: Sequence[Token]) -> tuple[Piece, ...]:
        found: list[Piece] = []
        between: list[Token] = []
        for token in tokens:
            if token.token_type not in _STRINGS:
                between.append(token)
                continue
            found.extend(self._value(between))
            between = []
            line = source.text.count("\n", 0, token.start) + 1
            found.append(Piece(token.text, line))
        found.extend(self._value(between))
        return tuple(found) if sum(len(piece.text) for piece in found) < _LONGEST else ()

    def _value(self, tokens: Iterable[Token]) -> tuple[Piece, ...]:
        """Return what stands between two strings: the text of a variable, or a value."""
        names = [token for token in tokens if token.text.isidentifier()]
        for token in names:
            if token.text.lower() in self.held:
                return self.held[token.text.lower()]
        if not names:
            return ()
        clock = next((token for token in names if token.text.lower() in CLOCKS), None)
        kind: OriginKind = "clock" if clock is not None else "parameter"
        place = Place(names[0].line)
        name = clock.text if clock is not None else names[-1].text
        expr = Expr("param", name, place=place, origins=frozenset({Origin(kind, name, place)}))
        return (Piece("", names[0].line, expr),)


def _variable(tokens: Sequence[Token]) -> str:
    for index in range(len(tokens) - 2, -1, -1):
        if tokens[index].token_type is TokenType.PARAMETER:
            return tokens[index + 1].text.lower()
    names = [token.text.lower() for token in tokens if token.text.upper() not in {"DECLARE", "LET", "SET"}]
    return names[0] if names else ""


def _joined(source: SqlText, pieces: Sequence[Piece], *, formatted: bool) -> SqlText | None:
    """Put pieces together as one text, in which every line knows where it stands in the file."""
    if not pieces or pieces[0].value is not None or not _WRITES.match(pieces[0].text):
        return None
    holes = dict(source.holes)
    text = ""
    lines: list[int] = []

    def hole(expr: Expr) -> str:
        number = max(holes, default=-1) + 1
        holes[number] = expr
        return hole_name(number)

    if formatted:  # what follows the pattern are its values
        first = pieces[0]
        place = Place(first.line)
        given = Expr("param", "value", place=place, origins=frozenset({Origin("parameter", "value", place)}))
        pieces = [Piece(_PLACEHOLDER.sub(lambda _: hole(given), first.text), first.line)]
    for piece in pieces:
        added = piece.text if piece.value is None else hole(piece.value)
        if not lines:
            lines.append(source.place(piece.line).line)
        lines.extend(source.place(piece.line + number).line for number in range(1, added.count("\n") + 1))
        text += added
    return SqlText(text, lines, holes=holes)
