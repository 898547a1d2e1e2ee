"""Calls of what is imported or built in, by their full names."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import (
    columns,
    effects,
    lakes,
    merging,
    orchestration,
    orm,
    reading_data,
    sql_calls,
)
from twice.audit.languages.python.unknown_calls import unknown_call
from twice.audit.languages.python.values import (
    NONE,
    Const,
    Entries,
    Function,
    Instance,
    Items,
    Origins,
    Piece,
    Text,
    Value,
    as_fallback,
    merged,
    origins_of,
    plain,
)
from twice.code.origins import origin_of

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


_HANDLERS = (
    columns.function,
    reading_data.function,
    merging.function,
    orchestration.function,
    lakes.function,
    orm.function,
    sql_calls.function,
    effects.function,
)


def named_call(
    interp: Interpreter,
    dotted: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value:
    """Call something by its full name."""
    last = dotted.rpartition(".")[2]
    first = plain(arguments[0]) if arguments else None
    kind = origin_of(dotted, len(arguments) + len(keywords) if dotted != "datetime.datetime.now" else 0, first or "")
    if kind is not None:
        made = interp.origin(kind, dotted if dotted.count(".") < 2 else ".".join(dotted.split(".")[-2:]), node)
        inner = origins_of(arguments[0]) if arguments and kind != "clock" else NONE
        if kind == "listing":
            return Items(items=[Value(origins=made | inner, name="file")], origins=made | inner)
        return Value(origins=made | inner, name=interp.source(node)[:60])
    for handler in _HANDLERS:
        found = handler(interp, dotted, arguments, keywords, node)
        if found is not None:
            return found
    if dotted in {
        "max",
        "min",
        "sorted",
        "list",
        "tuple",
        "set",
        "frozenset",
        "reversed",
        "next",
        "iter",
        "str",
        "int",
        "float",
        "dict",
        "len",
        "sum",
        "any",
        "all",
        "zip",
        "enumerate",
        "range",
        "map",
        "filter",
    }:
        return _builtin(interp, dotted, arguments, keywords, node)
    if dotted in {"os.getenv", "os.environ.get"}:
        environment = Value(
            origins=interp.origin("environment", interp.source(node), node)
            | interp.origin("parameter", first or "environment", node),
            name=first or "environment",
        )
        if len(arguments) > 1:
            return merged(environment, as_fallback(arguments[1])) if origins_of(arguments[1]) else environment
        return environment
    if dotted in {"pathlib.Path", "pathlib.PurePath", "Path"}:
        return Instance(
            kind="path",
            attributes={"text": arguments[0] if arguments else Value()},
            origins=origins_of(arguments[0]) if arguments else NONE,
        )
    if dotted in {"json.dump", "yaml.dump", "pickle.dump"} and arguments and not interp.quiet:
        for origin in origins_of(arguments[0]):
            if origin.kind == "set":  # list(a_set): the file shows its order
                interp.job.sets_iterated.append(Expr("python", origin.name, place=origin.place))
    if dotted == "os.path.join" and arguments:
        pieces: list[Piece | Value] = []
        for index, one in enumerate(arguments):
            if index:
                pieces.append(Piece("/", [node.lineno]))
            if isinstance(one, Text):
                pieces.extend(one.pieces)
            else:
                pieces.append(one)
        return Text(pieces=pieces)
    if (
        dotted
        in {
            "textwrap.dedent",
            "inspect.cleandoc",
            "sqlalchemy.text",
            "sqlalchemy.sql.text",
            "str",
            "sqlalchemy.sql.expression.text",
            "psycopg2.sql.SQL",
            "psycopg.sql.SQL",
        }
        and arguments
    ):
        return arguments[0]
    if dotted == "concurrent.futures.as_completed" and arguments:
        return arguments[0]
    if dotted == "functools.partial" and arguments and isinstance(arguments[0], Function):
        return _partial(arguments[0], arguments[1:], keywords)
    if dotted in {"copy.copy", "copy.deepcopy", "functools.partial", "typing.cast"} and arguments:
        return arguments[0] if last == "partial" else arguments[-1]
    return unknown_call(interp, dotted, "", arguments, keywords, node, owner)


def _partial(function: Function, arguments: list[Value], keywords: dict[str, Value]) -> Function:
    """Return a function of which some arguments are given already."""
    return replace(function, given={**function.given, **keywords}, ahead=[*function.ahead, *arguments])


def _builtin(
    interp: Interpreter, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    first = arguments[0] if arguments else Value()
    origins: Origins = NONE
    for one in (*arguments, *keywords.values()):
        origins |= origins_of(one)
    if name in {"set", "frozenset"}:
        items = first.items if isinstance(first, Items) else [Value(origins=origins_of(first))] if arguments else []
        return Items(items=list(items), kind="set", origins=first.origins if arguments else NONE)
    if name == "sorted":
        if isinstance(first, Items):
            key = keywords.get("key")
            mtime = key is not None and (
                "mtime" in interp.source(node)
                or "modificationTime" in interp.source(node)
                or "last_modified" in interp.source(node).lower()
            )
            extra = interp.origin("file", interp.source(node)[:60], node) if mtime else NONE
            items = [
                replace(one, origins=frozenset(o for o in one.origins if o.kind != "set") | extra)
                for one in first.items
            ]
            return Items(
                items=items, kind="list", origins=frozenset(o for o in first.origins if o.kind != "set") | extra
            )
        return Value(origins=frozenset(o for o in origins if o.kind != "set"))
    if name in {"list", "tuple", "reversed", "iter"}:
        if isinstance(first, Items):
            kind_origin = interp.origin("set", interp.source(node)[:60], node) if first.kind == "set" else NONE
            return Items(items=list(first.items), kind="list", origins=first.origins | kind_origin)
        if isinstance(first, Entries):
            return Items(items=[Text(pieces=[Piece(key, [node.lineno])]) for key in list(first.items)[:12]])
        return first if arguments else Items()
    if name in {"max", "min"}:
        source = interp.source(node)
        if "mtime" in source or "ctime" in source or "modificationTime" in source or "LastModified" in source:
            origins |= interp.origin("file", source[:60], node)
        return Value(origins=origins, name=source[:60])
    if name == "str":
        return first if isinstance(first, Text) else Value(origins=origins, name=first.name)
    if name in {"int", "float"} and isinstance(first, Const):
        return first
    if name == "dict":
        return Entries(items=dict(keywords) | (dict(first.items) if isinstance(first, Entries) else {}))
    if name == "enumerate" and isinstance(first, Items):
        shaken = interp.origin("set", interp.source(node)[:60], node) if first.kind == "set" else NONE
        return Items(
            items=[
                Items(items=[Value(origins=shaken, name="number") if shaken else Const(value=index), one], kind="tuple")
                for index, one in enumerate(first.items[:12])
            ],
            origins=first.origins,
        )
    if name == "zip" and arguments and all(isinstance(one, Items) for one in arguments):
        rows = zip(*(one.items for one in arguments if isinstance(one, Items)), strict=False)
        tuples: list[Value] = [Items(items=list(row), kind="tuple") for row in rows]
        return Items(items=tuples[:12])
    if name == "range" and {"clock", "watermark"} <= {one.kind for one in origins}:
        return Value(origins=origins, name=interp.source(node)[:60])  # the days from where the target ends to today
    if name in {"len", "range", "any", "all"}:
        return Value(name=interp.source(node)[:60])
    return Value(origins=origins, name=interp.source(node)[:60])
