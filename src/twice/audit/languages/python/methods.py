"""Methods of texts, dictionaries, lists and objects, and who knows those of everything else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twice.audit.languages.python import (
    argparsing,
    columns,
    combining,
    declared,
    frame_methods,
    merging,
    names,
    orchestration,
    orm,
    reading_data,
    writers,
)
from twice.audit.languages.python.pieces import format_text
from twice.audit.languages.python.unknown_calls import unknown_call
from twice.audit.languages.python.values import (
    NONE,
    Col,
    Const,
    Entries,
    Frame,
    Grouped,
    Instance,
    Items,
    MergeBuilder,
    Piece,
    Reader,
    Text,
    Value,
    WindowSpec,
    Writer,
    as_fallback,
    merged,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def _text_method(
    interp: Interpreter, text: Text, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    if method == "format":
        return format_text(text, arguments, keywords, node.lineno)
    if method == "join" and arguments:
        first = arguments[0]
        if isinstance(first, Items):
            separator = text.plain or ""
            pieces: list[Piece | Value] = []
            for index, item in enumerate(first.items):
                if index:
                    pieces.append(Piece(separator, [node.lineno] * (separator.count("\n") + 1)))
                if isinstance(item, Text):
                    pieces.extend(item.pieces)
                else:
                    pieces.append(item)
            shaken = interp.origin("set", interp.source(node)[:60], node) if first.kind == "set" else NONE
            return Text(pieces=pieces, origins=first.origins | shaken)
        return Value(origins=origins_of(first), name=interp.source(node)[:60])
    if method == "replace" and len(arguments) == 2:
        old = plain(arguments[0])
        if old:
            found: list[Piece | Value] = []
            for piece in text.pieces:
                if isinstance(piece, Piece) and old in piece.text:
                    parts = piece.text.split(old)
                    line = 0
                    for index, part in enumerate(parts):
                        if index:
                            found.append(arguments[1]) if not isinstance(arguments[1], Text) else found.extend(
                                arguments[1].pieces
                            )
                        found.append(Piece(part, piece.lines[line : line + part.count("\n") + 1] or piece.lines[-1:]))
                        line += part.count("\n")
                else:
                    found.append(piece)
            return Text(pieces=found, column=text.column)
        return text
    if method in {
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "encode",
        "strftime",
        "title",
        "casefold",
        "expandtabs",
        "removesuffix",
        "removeprefix",
    }:
        return text
    if method in {"split", "splitlines"}:
        whole = text.plain
        if whole is not None and arguments and plain(arguments[0]) is not None and method == "split":
            line = text.pieces[0].lines[0] if text.pieces and isinstance(text.pieces[0], Piece) else node.lineno
            items: list[Value] = []
            for part in whole.split(plain(arguments[0]) or None)[:20]:
                items.append(Text(pieces=[Piece(part, [line + n for n in range(part.count("\n") + 1)])]))
                line += part.count("\n")
            return Items(items=items)
        return Value(origins=origins_of(text))
    if method == "fromisoformat":
        return Value(origins=origins_of(arguments[0]) if arguments else NONE)
    return Value(origins=origins_of(text))


def _mapping_method(
    interp: Interpreter,
    mapping: Entries,
    method: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
) -> Value | None:
    key = plain(arguments[0]) if arguments else None
    if method in {"get", "pop", "setdefault"} and key is not None:
        if key in mapping.items:
            return mapping.items[key]
        default = arguments[1] if len(arguments) > 1 else None
        if mapping.name in {"kwargs", "context", "params", "conf", "config", "event"} or not mapping.items:
            kind = "logical date" if key in names.LOGICAL else "argument"
            if key in names.LOGICAL:
                interp.job.orchestration.uses_logical_date = True
            given = interp.parameter(key, node, kind, expression=interp.source(node))
            return merged(given, as_fallback(default)) if default is not None else given
        return default or Value(name=key)
    if method == "items":
        return Items(
            items=[
                Items(items=[Text(pieces=[Piece(name, [node.lineno])]), value], kind="tuple")
                for name, value in list(mapping.items.items())[:12]
            ]
        )
    if method == "values":
        return Items(items=list(mapping.items.values())[:12])
    if method == "keys":
        return Items(items=[Text(pieces=[Piece(name, [node.lineno])]) for name in list(mapping.items)[:12]])
    if method == "update" and arguments and isinstance(arguments[0], Entries):
        mapping.items.update(arguments[0].items)
        return Const()
    if method == "copy":
        return Entries(items=dict(mapping.items))
    return None


def _sequence_method(
    _interp: Interpreter,
    sequence: Items,
    method: str,
    arguments: list[Value],
    _keywords: dict[str, Value],
    _node: ast.Call,
) -> Value | None:
    if method in {"append", "add", "appendleft"} and arguments:
        if len(sequence.items) < 50:
            sequence.items.append(arguments[0])
        return Const()
    if method == "extend" and arguments and isinstance(arguments[0], Items):
        sequence.items.extend(arguments[0].items[:50])
        return Const()
    if method == "extend" and arguments:
        sequence.origins |= origins_of(arguments[0])
        return Const()
    if method in {"copy", "union", "intersection", "difference", "symmetric_difference"}:
        return Items(items=list(sequence.items), kind=sequence.kind, origins=sequence.origins)
    if method == "sort":
        return Const()
    return None


def _instance_method(
    interp: Interpreter,
    instance: Instance,
    method: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
) -> Value | None:
    if instance.kind == "dbt":
        return declared.dbt_method(interp, method, arguments, keywords, node)
    if instance.kind == "insert":
        return orm.insert_method(instance, method)
    if instance.kind == "parser":
        return argparsing.parser_method(interp, instance, method, arguments, keywords, node)
    if instance.kind == "delta":
        return merging.delta_method(interp, instance, method, arguments, keywords, node)
    if instance.kind == "glue sink":
        return merging.sink_method(interp, instance, method, arguments, node)
    if instance.kind == "path":
        if method in {"read_text", "read_bytes", "open"}:
            return reading_data.read_path(interp, instance.attributes["text"], node)
        if method in {"glob", "rglob", "iterdir"}:
            return Items(
                items=[Value(origins=interp.origin("listing", f"Path.{method}", node), name="file")],
                origins=interp.origin("listing", f"Path.{method}", node),
            )
        if method == "stat":
            return Value(origins=interp.origin("file", "Path.stat", node))
        if method in {"with_suffix", "joinpath", "resolve", "absolute", "expanduser", "as_posix"}:
            return Instance(
                kind="path",
                attributes=instance.attributes,
                origins=instance.origins | (origins_of(arguments[0]) if arguments else NONE),
            )
        return None
    if instance.kind.endswith(("Operator", "Sensor", "Transfer")) or instance.kind == "task":
        if method in {"set_downstream", "set_upstream"} and arguments:
            return orchestration.follows(interp, instance, arguments[0], backwards=method == "set_upstream")
        return None
    if instance.methods is not None and method in instance.methods.env:
        return None
    return unknown_call(interp, instance.kind, method, arguments, keywords, node, instance)


def _window_method(
    interp: Interpreter,
    spec: WindowSpec,
    method: str,
    arguments: list[Value],
    _keywords: dict[str, Value],
    node: ast.Call,
) -> Value | None:
    return columns.window_method(interp, spec, method, arguments, node)


_Method = Callable[["Interpreter", Any, str, "list[Value]", "dict[str, Value]", ast.Call], "Value | None"]
METHODS: dict[type[Value], _Method] = {
    Text: _text_method,
    Frame: frame_methods.method,
    Grouped: combining.grouped_method,
    Writer: writers.method,
    Reader: reading_data.method,
    Col: columns.method,
    WindowSpec: _window_method,
    MergeBuilder: merging.method,
    Entries: _mapping_method,
    Items: _sequence_method,
    Instance: _instance_method,
}
