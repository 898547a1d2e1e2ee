"""Calls and attributes: find out what is called, and hand over to whoever knows it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import (
    columns,
    databases,
    effects,
    frames,
    lakes,
    merging,
    names,
    orchestration,
    reading_data,
    writers,
)
from twice.audit.languages.python.pieces import format_text
from twice.audit.languages.python.values import (
    NONE,
    Col,
    Const,
    Entries,
    Frame,
    Function,
    Grouped,
    Instance,
    Items,
    Klass,
    MergeBuilder,
    Name,
    Origins,
    Piece,
    Reader,
    Text,
    Value,
    WindowSpec,
    Writer,
    alternatives,
    as_fallback,
    constant,
    merged,
    origins_of,
    plain,
    shown,
)
from twice.audit.model import Call

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_FRAME_METHODS = frozenset(
    {
        "withColumn", "withColumns", "filter", "where", "select", "selectExpr", "groupBy", "groupby", "join", "dropDuplicates", "drop_duplicates",
        "distinct", "orderBy", "sort", "limit", "union", "unionAll", "unionByName", "agg", "withColumnRenamed", "drop", "sample", "randomSplit",
        "createOrReplaceTempView", "createTempView", "createOrReplaceGlobalTempView", "registerTempTable", "repartition", "coalesce", "cache", "persist",
        "crossJoin", "exceptAll", "subtract", "intersect", "fillna", "dropna", "na", "toDF", "rdd", "collect", "first", "head", "take", "toPandas",
        "foreachPartition", "foreach", "show", "count", "alias", "transform", "mapInPandas", "withWatermark", "dropDuplicatesWithinWatermark", "checkpoint",
        "hint", "describe", "unpivot", "melt", "sortWithinPartitions", "tail", "isEmpty", "collectAsList", "toLocalIterator",
    }
)  # fmt: skip
# Said of something unknown, these make it a DataFrame; the others are too common to tell.
_TELLING = frozenset(
    {
        "withColumn", "withColumns", "selectExpr", "groupBy", "dropDuplicates", "createOrReplaceTempView", "unionByName", "withColumnRenamed",
        "orderBy", "toPandas", "foreachPartition", "withWatermark", "createTempView", "createOrReplaceGlobalTempView", "dropDuplicatesWithinWatermark",
        "unionAll", "crossJoin", "randomSplit", "exceptAll", "registerTempTable",
    }
)  # fmt: skip
_SPARK_ONLY = frozenset(
    {
        "filter",
        "where",
        "select",
        "join",
        "distinct",
        "limit",
        "union",
        "agg",
        "drop",
        "sample",
        "alias",
        "transform",
        "collect",
        "coalesce",
        "show",
    }
)


def attribute(interp: Interpreter, owner: Value, node: ast.Attribute) -> Value:
    """Return what an attribute stands for."""
    name = node.attr
    if name in {"spark_session", "sparkSession"}:
        return Name(dotted="spark", name="spark")
    for one in alternatives(owner):
        if isinstance(one, Name):
            found = _of_name(interp, one, name, node)
            if found is not None:
                return found
        if isinstance(one, Instance):
            if name in one.attributes:
                return one.attributes[name]
            if one.methods is not None and name in one.methods.env:
                method = one.methods.env[name]
                if isinstance(method, Function):
                    return replace(method, bound=one)
                return method
            if one.kind == "arguments":
                return one.attributes.get(name) or interp.parameter(
                    name, node, "argument", expression=interp.source(node)
                )
        if isinstance(one, Klass) and name in one.env:
            return one.env[name]
        if isinstance(one, Frame):
            if name in {"write", "writeStream"}:
                return Writer(frame=one, kind=name)
            if name in {"rdd", "na", "stat"}:
                return one
            if (
                name not in _FRAME_METHODS
                and not name.startswith("to")
                and one.query.language == "dataframe"
                and not _is_method(interp, node)
            ):
                return Col(expr=Expr("column", name.lower(), place=interp.place(node), table=one.name))
        if isinstance(one, Col) and name in {"dt", "str"}:
            return one
    if name in {"write", "writeStream"} and not isinstance(owner, (Name, Instance)):
        return Writer(frame=frames.unknown_frame(owner.name, interp.place(node), origins_of(owner)), kind=name)
    if name in {"partition_key", "partition_time_window", "partition_key_range"}:
        interp.job.orchestration.uses_logical_date = True
        return interp.parameter(name, node, "logical date", expression=interp.source(node))
    return Value(origins=origins_of(owner), name=interp.source(node)[:60])


def _is_method(interp: Interpreter, node: ast.Attribute) -> bool:
    return getattr(node, "twice_called", False)


def _of_name(interp: Interpreter, owner: Name, name: str, node: ast.Attribute) -> Value | None:
    dotted = f"{owner.dotted}.{name}"
    if owner.dotted in {"spark", "glueContext.spark_session", "sqlContext"} or owner.dotted.endswith("SparkSession"):
        if name in {"read", "readStream"}:
            return Reader(stream=name == "readStream", name=interp.source(node))
        if owner.dotted.endswith("SparkSession") and name == "builder":
            return Name(dotted="spark.builder", name="builder")
    if dotted == "sys.argv":
        return Value(origins=interp.origin("parameter", "sys.argv", node), name="sys.argv")
    if dotted == "os.environ":
        return Name(dotted=dotted, name=dotted)
    return Name(dotted=dotted, name=f"{owner.name}.{name}" if owner.name else dotted)


def call(interp: Interpreter, node: ast.Call) -> Value:
    """Evaluate a call."""
    if isinstance(node.func, ast.Attribute):
        node.func.twice_called = True  # type: ignore[attr-defined]
        owner: Value | None = interp.eval(node.func.value)
        method = node.func.attr
    else:
        owner, method = None, ""
    effects_inside = _runs_inside(method)
    arguments: list[Value] = []
    for one in node.args:
        value = interp.eval(one.value if isinstance(one, ast.Starred) else one)
        if isinstance(one, ast.Starred) and isinstance(value, Items):
            arguments.extend(value.items)
        else:
            arguments.append(value)
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = interp.eval(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Entries):
            keywords.update(value.items)
    if effects_inside:
        _run_inside(interp, effects_inside, arguments, keywords, node)
    if owner is not None:
        found = _method_call(interp, owner, method, arguments, keywords, node)
        if found is not None:
            return found
        function: Value = attribute(interp, owner, node.func) if isinstance(node.func, ast.Attribute) else Value()
    else:
        function = interp.eval(node.func)
    for found in alternatives(function):
        if isinstance(found, Function):
            return _local(interp, found, arguments, keywords, node)
        if isinstance(found, Klass):
            return _construct(interp, found, arguments, keywords, node)
        if isinstance(found, Name):
            return _named_call(interp, found.dotted, arguments, keywords, node, owner)
    return _unknown_call(interp, function.name, method, arguments, keywords, node, owner)


def _local(
    interp: Interpreter, function: Function, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    if function.task or any(re.match(r"(task|op|asset|flow)\b|\w+\.task\b", one) for one in function.decorators):
        return orchestration.call_task(interp, function, arguments, keywords, node)
    if any("udf" in one.lower() for one in function.decorators):
        return columns.call_udf(interp, function, arguments, node)
    if any(one.startswith("dag") or ".dag" in one for one in function.decorators):
        return interp.call_function(function, [], {}, node, standalone=True)
    origins: Origins = NONE
    result = interp.call_function(function, arguments, keywords, node)
    if interp.depth >= 7:
        for value in (*arguments, *keywords.values()):
            origins |= origins_of(value)
    return result


def _construct(
    interp: Interpreter, class_: Klass, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    instance = Instance(kind=class_.name, methods=class_, place=interp.place(node), name=class_.name)
    init = class_.env.get("__init__")
    if isinstance(init, Function):
        interp.call_function(replace(init, bound=instance), arguments, keywords, node)
    elif class_.node is not None:
        fields = [
            item.target.id
            for item in class_.node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        for name, value in zip(fields, arguments, strict=False):
            instance.attributes[name] = value
        instance.attributes.update(keywords)
    return instance


def _runs_inside(method: str) -> str:
    return (
        method
        if method
        in {
            "foreachPartition",
            "foreach",
            "foreachBatch",
            "map",
            "mapPartitions",
            "flatMap",
            "mapInPandas",
            "applyInPandas",
            "apply",
        }
        else ""
    )


def _run_inside(
    interp: Interpreter, what: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> None:
    for value in (*arguments, *keywords.values()):
        for one in alternatives(value):
            if isinstance(one, Function) and one.node is not None and what != "foreachBatch":
                before, interp.state.inside = interp.state.inside, what
                interp.call_function(one, [Value(name="row")], {}, node)
                interp.state.inside = before


def _method_call(
    interp: Interpreter, owner: Value, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    note_call(interp, owner, method, arguments, keywords, node)
    if method == "submit" and arguments and isinstance(arguments[0], Function):  # a pool of threads runs it
        return interp.call_function(arguments[0], arguments[1:], keywords, node)
    if method == "result" and isinstance(owner, (Items, Entries, Text)):
        return owner
    for one in alternatives(owner):
        found: Value | None = None
        if isinstance(one, Text):
            found = _text_method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Frame):
            found = frames.method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Grouped):
            found = frames.grouped_method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Writer):
            found = writers.method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Reader):
            found = reading_data.method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Col):
            found = columns.method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, WindowSpec):
            found = columns.window_method(interp, one, method, arguments, node)
        elif isinstance(one, MergeBuilder):
            found = merging.method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Entries):
            found = _mapping_method(interp, one, method, arguments, keywords, node)
        elif isinstance(one, Items):
            found = _sequence_method(interp, one, method, arguments)
        elif isinstance(one, Instance):
            found = _instance_method(interp, one, method, arguments, keywords, node)
        if found is not None:
            return found
    if isinstance(owner, Name):
        return None
    if not isinstance(owner, (Instance, Function, Klass, Entries, Items, Text, Const)):
        if method in _TELLING or (interp.spark and method in _SPARK_ONLY and not _is_known_other(owner)):
            frame = frames.unknown_frame(owner.name, interp.place(node), origins_of(owner))
            return frames.method(interp, frame, method, arguments, keywords, node)
        if method == "writeTo":
            return frames.method(
                interp,
                frames.unknown_frame(owner.name, interp.place(node), origins_of(owner)),
                method,
                arguments,
                keywords,
                node,
            )
        if method in {
            "to_sql",
            "to_gbq",
            "to_parquet",
            "to_csv",
            "to_json",
            "write_database",
            "write_parquet",
            "write_csv",
            "write_delta",
        }:
            return frames.method(
                interp,
                frames.unknown_frame(owner.name, interp.place(node), origins_of(owner)),
                method,
                arguments,
                keywords,
                node,
            )
    return None


def _is_known_other(owner: Value) -> bool:
    return bool(
        re.search(r"session|client|cursor|conn|query|api|http|path|list|dict|os\.|str", owner.name, re.IGNORECASE)
    )


def note_call(
    interp: Interpreter, owner: Value, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> None:
    """Keep the call for rules that look at what the model does not hold."""
    if interp.quiet or len(interp.job.calls) > 5000:
        return
    dotted = f"{owner.dotted}.{method}" if isinstance(owner, Name) else f".{method}"
    function = interp.state.functions[-1] if interp.state.functions else ""
    receiver = interp.source(node.func.value)[:80] if isinstance(node.func, ast.Attribute) else ""

    def write_out() -> tuple[str, ...]:
        named = [f"{key}={shown(one)[:200]}" for key, one in list(keywords.items())[:6]]
        return (*(shown(one)[:200] for one in arguments[:4]), *named)

    number = len(interp.job.calls)
    interp.job.calls.append(Call(dotted, interp.place(node), tuple(keywords), function, number, receiver, write_out))


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


def _sequence_method(interp: Interpreter, sequence: Items, method: str, arguments: list[Value]) -> Value | None:
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
    if instance.kind == "parser":
        return orchestration.parser_method(interp, instance, method, arguments, keywords, node)
    if instance.kind == "delta":
        return merging.delta_method(interp, instance, method, arguments, keywords, node)
    if instance.kind == "glue sink":
        return merging.sink_method(interp, instance, method, node)
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
    return _unknown_call(interp, instance.kind, method, arguments, keywords, node, instance)


def _named_call(
    interp: Interpreter,
    dotted: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value:
    if owner is None:
        note_call(
            interp,
            Name(dotted=dotted.rpartition(".")[0]) if "." in dotted else Value(),
            dotted.rpartition(".")[2],
            arguments,
            keywords,
            node,
        )
    last = dotted.rpartition(".")[2]
    first = plain(arguments[0]) if arguments else None
    kind = names.origin_of(
        dotted, len(arguments) + len(keywords) if dotted != "datetime.datetime.now" else 0, first or ""
    )
    if kind is not None:
        made = interp.origin(kind, dotted if dotted.count(".") < 2 else ".".join(dotted.split(".")[-2:]), node)
        inner = origins_of(arguments[0]) if arguments and kind != "clock" else NONE
        if kind == "listing":
            return Items(items=[Value(origins=made | inner, name="file")], origins=made | inner)
        return Value(origins=made | inner, name=interp.source(node)[:60])
    for handler in (
        columns.function, reading_data.function, merging.function, orchestration.function, lakes.function, databases.function, effects.function,
    ):  # fmt: skip
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
    if dotted in {"copy.copy", "copy.deepcopy", "functools.partial", "typing.cast"} and arguments:
        return _partial(interp, arguments, keywords) if last == "partial" else arguments[-1]
    return _unknown_call(interp, dotted, "", arguments, keywords, node, owner)


def _partial(interp: Interpreter, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    return arguments[0]


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
    if name in {"len", "range", "any", "all"}:
        return Value(name=interp.source(node)[:60])
    return Value(origins=origins, name=interp.source(node)[:60])


def _unknown_call(
    interp: Interpreter,
    name: str,
    method: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value:
    """A call of something that is not known: see who is told what."""
    full = f"{name}.{method}" if method and not name.endswith(method) else name or method
    if owner is not None and not isinstance(owner, (Name, Instance)):
        full = f"{owner.name or interp.source(node.func)}"
        full = f"{full}.{method}" if method and not full.endswith(f".{method}") else full
    last = method or full.rpartition(".")[2]
    base = full.rpartition(".")[0]
    origins: Origins = origins_of(owner) if owner is not None and not isinstance(owner, Instance) else NONE
    given: Origins = NONE
    for one in (*arguments, *keywords.values()):
        given |= origins_of(one)
    if (last in names.LOG_METHODS and (names.LOGGERS.search(base) or not base)) or full in {
        "print",
        "pprint",
        "pprint.pprint",
        "click.echo",
        "sys.stdout.write",
        "sys.stderr.write",
        "display",
        "warnings.warn",
        "st.write",
    }:
        interp.use(given, "log", node)
        return Value()
    if last == "sleep":
        interp.use(given, "sleep", node)
        return Value()
    if names.METRICS.search(full):
        interp.use(given, "metric", node)
        return Value(origins=origins | given)
    found = merging.glue(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = effects.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = lakes.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = databases.unknown(interp, full, last, arguments, keywords, node, owner)
    if found is not None:
        return found
    found = reading_data.unknown(interp, full, last, arguments, keywords, node, owner)
    if found is not None:
        return found
    found = orchestration.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    if (
        last
        in {
            "strftime",
            "isoformat",
            "date",
            "timestamp",
            "replace",
            "astimezone",
            "to_datetime_string",
            "format",
            "subtract",
            "add",
            "start_of",
            "end_of",
            "to_date_string",
            "in_timezone",
            "int_timestamp",
            "timetuple",
            "floor",
            "normalize",
            "total_seconds",
            "time",
            "isocalendar",
            "weekday",
            "strptime",
            "combine",
            "fromtimestamp",
            "hex",
            "__str__",
            "lower",
            "upper",
            "strip",
            "split",
            "decode",
            "encode",
            "to_pydatetime",
            "float_timestamp",
            "diff",
            "shift",
        }
        or not full
    ):
        if last == "diff":
            return Value()
        return Value(origins=origins | given, name=interp.source(node)[:60])
    if names.CREDENTIALS.search(full):
        interp.use(given, "credential", node)
    elif any(origin.kind in {"clock", "random"} for origin in given) and last not in {
        "timedelta",
        "relativedelta",
        "DateOffset",
        "Duration",
    }:
        interp.use(
            frozenset(origin for origin in given if origin.kind in {"clock", "random"}), "argument", node, detail=full
        )
    if isinstance(constant(owner), str):
        return Value(origins=given)
    return Value(origins=origins | given, name=interp.source(node)[:60])


__all__ = ["attribute", "call", "note_call"]
