"""Calls and attributes: find out what is called, and hand over to the module that knows it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import (
    clients,
    columns,
    frame_methods,
    frames,
    orchestration,
)
from twice.audit.languages.python.bulk_loads import MONGO
from twice.audit.languages.python.methods import METHODS
from twice.audit.languages.python.named_calls import named_call
from twice.audit.languages.python.unknown_calls import unknown_call
from twice.audit.languages.python.values import (
    Col,
    Const,
    Entries,
    Frame,
    Function,
    Instance,
    Items,
    Klass,
    Name,
    Reader,
    Rows,
    Text,
    Value,
    Writer,
    alternatives,
    made_of,
    origins_of,
    shown,
)
from twice.audit.model import Call

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter
    from twice.audit.languages.python.snippets import Snippets

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
# Called on an unknown value, these show that it is a DataFrame; the other methods are too common.
_TELLING = frozenset(
    {
        "withColumn", "withColumns", "selectExpr", "groupBy", "dropDuplicates", "createOrReplaceTempView", "unionByName", "withColumnRenamed",
        "orderBy", "toPandas", "foreachPartition", "withWatermark", "createTempView", "createOrReplaceGlobalTempView", "dropDuplicatesWithinWatermark",
        "unionAll", "crossJoin", "randomSplit", "exceptAll", "registerTempTable",
    }
)  # fmt: skip
_SPARK_ONLY = frozenset(
    {
        "filter", "where", "select", "join", "distinct", "limit", "union", "agg", "drop", "sample", "alias", "transform", "collect", "coalesce",
        "show",
    }
)  # fmt: skip
_WRITES_A_FRAME = frozenset(
    {"writeTo", "to_sql", "to_gbq", "to_parquet", "to_csv", "to_json", "write_database", "write_parquet", "write_csv", "write_delta"}
)  # fmt: skip
# foreachBatch is run from where the stream starts, with its batch.
_RUN_INSIDE = frozenset({"foreachPartition", "foreach", "map", "mapPartitions", "flatMap", "mapInPandas", "applyInPandas", "apply"})  # fmt: skip
_OTHER = re.compile(r"session|client|cursor|conn|query|api|http|path|list|dict|os\.|str", re.IGNORECASE)


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
            if clients.family(one.kind) is not None:
                return Instance(kind=f"{one.kind}.{name}", place=one.place)
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
                and not getattr(node, "twice_called", False)
            ):
                return Col(expr=Expr("column", name.lower(), place=interp.place(node), table=one.name))
        if isinstance(one, Col) and name in {"dt", "str"}:
            return one
    if name in {"write", "writeStream"} and not isinstance(owner, (Name, Instance)):
        return Writer(frame=frames.taken_for_frame(owner, interp.place(node)), kind=name)
    if name in {"partition_key", "partition_time_window", "partition_key_range"}:
        interp.job.orchestration.uses_logical_date = True
        return interp.parameter(name, node, "logical date", expression=interp.source(node))
    made = Value(origins=origins_of(owner), name=interp.source(node)[:60])
    return made_of(made, owner if isinstance(owner, Rows) else None)


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
    arguments: list[Value] = []
    for one in node.args:
        value = interp.eval(one.value if isinstance(one, ast.Starred) else one)
        if isinstance(one, ast.Starred) and isinstance(value, Items):
            arguments.extend(value.items)
            if value.kind == "set" and method == "select" and not interp.quiet:  # the columns in any order
                interp.job.sets_iterated.append(Expr("python", interp.source(one.value), place=interp.place(one)))
        else:
            arguments.append(value)
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = interp.eval(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Entries):
            keywords.update(value.items)
    if method in _RUN_INSIDE:
        _run_inside(interp, method, arguments, keywords, node)
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
            if owner is None:
                home, _, last = found.dotted.rpartition(".")
                note_call(interp, Name(dotted=home) if home else Value(), last, arguments, keywords, node)
            return named_call(interp, found.dotted, arguments, keywords, node, owner)
    return unknown_call(interp, function.name, method, arguments, keywords, node, owner)


def _local(
    interp: Interpreter, function: Function, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    keywords = {**function.given, **keywords} if function.given else keywords
    arguments = [*function.ahead, *arguments]
    if function.task or any(re.match(r"(task|op|asset|flow)\b|\w+\.task\b", one) for one in function.decorators):
        return orchestration.call_task(interp, function, arguments, keywords, node)
    if any("udf" in one.lower() for one in function.decorators):
        return columns.call_udf(interp, function, arguments, node)
    if any(one.startswith("dag") or ".dag" in one for one in function.decorators):
        return interp.call_function(function, [], {}, node, standalone=True)
    return interp.call_function(function, arguments, keywords, node)


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


def _run_inside(
    interp: Interpreter, what: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> None:
    for value in (*arguments, *keywords.values()):
        for one in alternatives(value):
            if isinstance(one, Function) and one.node is not None:
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
    if isinstance(owner, Function):
        done = _task_method(interp, owner, method, arguments, keywords, node)
        if done is not None:
            return done
    for one in alternatives(owner):
        known = METHODS.get(type(one))
        found = known(interp, one, method, arguments, keywords, node) if known is not None else None
        if found is not None:
            return found
    if isinstance(owner, Name):
        if owner.dotted.startswith("prefect_") and method in _REFINES:
            return owner
        if owner.dotted.startswith("prefect_") and method in _RUNS:
            return named_call(interp, owner.dotted, arguments, keywords, node, None)
        return None
    if not isinstance(owner, (Instance, Function, Klass, Entries, Items, Text, Const)):
        spark_only = interp.spark and method in _SPARK_ONLY and not _is_known_other(interp, owner)
        if spark_only or method in _TELLING or method in _WRITES_A_FRAME:
            frame = frames.taken_for_frame(owner, interp.place(node))
            return frame_methods.method(interp, frame, method, arguments, keywords, node)
    return None


_REFINES = frozenset({"override", "with_options", "options", "partial"})
_RUNS = frozenset({"submit", "map", "expand", "delay", "fn", "remote", "apply_async", "starmap", "expand_kwargs"})


def _task_method(
    interp: Interpreter, function: Function, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:  # fmt: skip
    """Airflow's task.override(…)(…) and task.partial(…).expand(…), Prefect's task.submit(…), Celery's task.delay(…)."""
    if method in _REFINES:
        return replace(function, given={**function.given, **keywords} if method == "partial" else function.given)
    if method in _RUNS:
        return _local(interp, function, arguments, keywords, node)
    return None


def _is_known_other(interp: Interpreter, owner: Value) -> bool:
    if any(MONGO.search(one) for one in interp.job.imports) and "collection" in owner.name.lower():
        return True
    return bool(_OTHER.search(owner.name))


def note_call(
    interp: Interpreter, owner: Value, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> None:
    """Keep the call for rules that look at what the model does not hold."""
    if interp.quiet or len(interp.job.calls) > 5000:
        return
    dotted = f"{owner.dotted}.{method}" if isinstance(owner, Name) else f".{method}"
    function = interp.state.functions[-1] if interp.state.functions else ""
    # Without the interpreter, which holds the job: they would keep each other alive.
    receiver = partial(_receiver, interp.snippets, node, foreign=interp.state.override is not None)
    texts = partial(_texts, arguments, keywords)
    number = len(interp.job.calls)
    interp.job.calls.append(Call(dotted, interp.place(node), tuple(keywords), function, number, receiver, texts))


def _receiver(snippets: Snippets, node: ast.Call, *, foreign: bool) -> str:
    return snippets.of(node.func.value, foreign=foreign)[:80] if isinstance(node.func, ast.Attribute) else ""


def _texts(arguments: list[Value], keywords: dict[str, Value]) -> tuple[str, ...]:
    named = [f"{key}={shown(one)[:200]}" for key, one in list(keywords.items())[:6]]
    return (*(shown(one)[:200] for one in arguments[:4]), *named)
