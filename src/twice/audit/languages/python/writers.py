"""df.write, df.writeTo, df.writeStream, pandas' to_sql and the like: all become writes."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import names
from twice.audit.languages.python.sqltexts import as_expr, condition
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Function,
    Instance,
    Text,
    Value,
    Writer,
    alternatives,
    constant,
    origins_of,
    plain,
    shown,
)
from twice.audit.languages.python.write_modes import by_position, first_turn_overwrites
from twice.audit.model import Mode, Target, Write
from twice.audit.places import Place

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_MODES = {
    "append": Mode.APPEND,
    "overwrite": Mode.OVERWRITE,
    "ignore": Mode.CREATE,
    "error": Mode.CREATE,
    "errorifexists": Mode.CREATE,
    "default": Mode.CREATE,
    "complete": Mode.OVERWRITE,
    "update": Mode.UPSERT,
}
_UPSERTING = re.compile(
    r"elasticsearch|mongo|cosmos|dynamodb|cassandra|hbase|redis|neo4j|hudi|couchbase|\bes\b", re.IGNORECASE
)
_FILES = frozenset({"parquet", "csv", "json", "orc", "text", "avro", "save", "delta"})


def target_of(interp: Interpreter, value: Value | None, node: ast.AST, *, kind: str = "table") -> Target:
    """Return the target that a value names."""
    name = shown(value).strip().lower() if value is not None else ""
    expr: Expr | None = None
    origins = origins_of(value) if value is not None else frozenset()
    unsteady = frozenset(one for one in origins if one.kind != "parameter")
    if unsteady:
        expr = Expr("python", name, place=interp.place(node), origins=unsteady)
    if name.startswith("delta.`"):
        name, kind = name[7:].strip("`"), "path"
    if kind == "table":
        name = name.replace("`", "").replace('"', "")
    temporary = kind == "path" and bool(names.TEMPORARY.search(name))
    return Target(name, kind, temporary=temporary, expr=expr)  # type: ignore[arg-type]


def emit(interp: Interpreter, write: Write) -> None:
    """Add a write at the place where the interpreter stands."""
    if interp.quiet:
        return
    around = interp.around()
    write.task, write.function, write.loop = around.task, around.function, around.loop
    write.guarded_by = write.guarded_by or around.guarded_by
    write.branches = around.branches
    write.retries = around.retries if write.retries is None else write.retries
    if write.mode is Mode.CREATE and interp.state.in_except:  # made only when opening it has failed
        write.if_not_exists = True
    if interp.state.batch_id:
        write.stream, write.stream_batch_id = True, interp.state.batch_id
        write.batch_id_used = interp.state.inside == "foreachBatch used"
    mark = (write.place, write.target.name, write.mode, write.api)
    if mark in interp.writes_seen:
        return
    interp.writes_seen.add(mark)
    interp.builder.add_write(write)


def method(
    interp: Interpreter, writer: Writer, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a method of a writer."""
    first = arguments[0] if arguments else None
    if name in {"mode", "outputMode"}:
        chosen = (
            first
            if first is not None
            else keywords.get("saveMode") or keywords.get("mode") or keywords.get("outputMode")
        )
        return replace(writer, state={**writer.state, "mode": chosen or Value()}, explicit=_explicit(chosen))
    if name == "format":
        return replace(writer, state={**writer.state, "format": first or keywords.get("source", Value())})
    if name == "option":
        key = plain(first) if first is not None else None
        value = arguments[1] if len(arguments) > 1 else keywords.get("value", Value())
        return replace(writer, options={**writer.options, (key or "").lower(): value})
    if name == "options":
        given = {key.lower(): value for key, value in keywords.items()}
        if isinstance(first, Entries):
            given.update({key.lower(): value for key, value in first.items.items()})
        return replace(writer, options={**writer.options, **given})
    if name in {"partitionBy", "partitionedBy"}:
        from twice.audit.languages.python.columns import _flat, column_of

        columns = tuple(
            one
            for item in _flat(arguments)
            for one in ([shown(item).lower()] if isinstance(item, Text) else column_of(interp, item, node).columns())
        )
        return replace(writer, partition=columns)
    if name in {"bucketBy", "sortBy", "using", "tableProperty", "queryName", "clusterBy"}:
        return replace(writer, state={**writer.state, "format": first or Value()}) if name == "using" else writer
    if name == "trigger":
        return writer
    if writer.kind == "writeTo":
        return _v2(interp, writer, name, arguments, node)
    if name == "foreachBatch":
        return _foreach_batch(interp, writer, first, node)
    if name == "foreach":
        _foreach(interp, first, node)
        return writer
    if name in {"saveAsTable", "save_as_table", "insertInto", "toTable", "jdbc", "save", "start", *_FILES}:
        return _save(interp, writer, name, arguments, keywords, node)
    return writer


def _foreach(interp: Interpreter, given: Value | None, node: ast.Call) -> None:
    """Run what a stream does with each row: a function, or an object with open, process and close."""
    process = given.methods.env.get("process") if isinstance(given, Instance) and given.methods is not None else given
    if isinstance(process, Function):
        bound = replace(process, bound=given) if isinstance(given, Instance) else process
        before, interp.state.inside = interp.state.inside, "foreach"
        interp.call_function(bound, [Value(name="row")], {}, node)
        interp.state.inside = before


def chain_place(interp: Interpreter, node: ast.Call) -> Place:
    """Return where a chain of calls begins to write (`.write`, `.writeTo`), up to its end; that line is read first."""
    own = interp.place(node)
    if interp.state.override is not None:
        return own
    one: ast.expr = node
    while isinstance(one, (ast.Call, ast.Attribute)):
        if isinstance(one, ast.Attribute):
            if one.attr in {"write", "writeTo", "writeStream"} and one.end_lineno is not None:
                return Place(one.end_lineno, max(1, (one.end_col_offset or 0) - len(one.attr) + 1), own.end_line)
            one = one.value
        else:
            one = one.func
    return own


def _explicit(value: Value | None) -> bool:
    """Whether the mode is said, and not only the default of an argument."""
    return isinstance(value, Text) and value.plain is not None


def _mode(interp: Interpreter, writer: Writer) -> tuple[Mode, bool]:
    value = writer.state.get("mode")
    if value is None:
        return (Mode.APPEND if writer.kind == "writeStream" else Mode.CREATE), False
    texts = [one.plain.lower() for one in alternatives(value) if isinstance(one, Text) and one.plain is not None]
    known = [_MODES[text] for text in texts if text in _MODES]
    if not known:
        return Mode.ALTER, False
    if Mode.APPEND in known and len(set(known)) > 1:
        return Mode.APPEND, False
    return known[0], _explicit(value)


def _save(
    interp: Interpreter, writer: Writer, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    place = chain_place(interp, node)
    first = arguments[0] if arguments else None
    keywords = {**by_position(writer, name, arguments), **keywords}
    if "mode" in keywords:
        writer = replace(writer, state={**writer.state, "mode": keywords["mode"]}, explicit=True)
    if "outputMode" in keywords:
        writer = replace(writer, state={**writer.state, "mode": keywords["outputMode"]}, explicit=True)
    if "partitionBy" in keywords:
        from twice.audit.languages.python.columns import _flat

        writer = replace(writer, partition=tuple(shown(one).lower() for one in _flat([keywords["partitionBy"]])))
    format_ = shown(keywords.get("format") or writer.state.get("format")).lower() or (
        name if name in _FILES and name != "save" else ""
    )
    mode, explicit = _mode(interp, writer)
    options = {key: shown(value) for key, value in writer.options.items()}
    via, kind = "dataframe", "path"
    target_value: Value | None = first or keywords.get("path")
    if name in {"saveAsTable", "save_as_table", "insertInto", "toTable"}:
        kind = "table"
        target_value = first or keywords.get("name") or keywords.get("tableName") or keywords.get("table_name")
    elif name == "jdbc" or format_ in {
        "jdbc",
        "snowflake",
        "net.snowflake.spark.snowflake",
        "bigquery",
        "redshift",
        "com.databricks.spark.redshift",
        "io.github.spark_redshift_community.spark.redshift",
        "com.microsoft.sqlserver.jdbc.spark",
        "sqldw",
        "com.databricks.spark.sqldw",
    }:
        via = (
            "jdbc"
            if name == "jdbc" or "jdbc" in format_ or format_ in {"redshift", "sqldw"} or "redshift" in format_
            else format_
        )
        kind = "table"
        table = writer.options.get("dbtable") or writer.options.get("table") or writer.options.get("sfdatabase")
        if name == "jdbc":
            table = keywords.get("table") or (arguments[1] if len(arguments) > 1 else None)
            options["url"] = shown(keywords.get("url") or first)
            if "mode" not in keywords and len(arguments) > 2:
                mode, explicit = _mode(interp, replace(writer, state={**writer.state, "mode": arguments[2]}))
        target_value = table or target_value
    elif format_ == "kafka":
        kind, target_value = "topic", writer.options.get("topic") or first
    elif first is None and "path" in writer.options:
        target_value = writer.options["path"]
    if name == "insertInto":
        overwrite = keywords.get("overwrite") or (arguments[1] if len(arguments) > 1 else None)
        if constant(overwrite) is True:
            mode, explicit = Mode.OVERWRITE, True
        elif mode is Mode.CREATE:
            mode, explicit = Mode.APPEND, False
    target = target_of(interp, target_value, node, kind=kind)
    write = Write(
        target,
        mode,
        place,
        query=writer.frame.query,
        via=via,
        api=name,
        format=format_,
        explicit_mode=explicit,
        options=options,
    )
    write.partition = tuple((column, None) for column in writer.partition)
    write.if_not_exists = (plain(writer.state.get("mode")) or "").lower() == "ignore"  # a second run leaves it alone
    inserts = options.get("hoodie.datasource.write.operation", "upsert").lower() in {"insert", "bulk_insert"}
    inserts = ("hudi" in format_ and inserts) or ("mongo" in format_ and _brings_no_id(writer))
    if via == "dataframe" and _UPSERTING.search(format_) and not inserts:
        write.mode = Mode.UPSERT if mode is Mode.APPEND else mode
    write.conditional = first_turn_overwrites(interp, writer.state.get("mode"))
    _refine_overwrite(interp, writer, write, node)
    if writer.kind == "writeStream":
        write.stream = True
        write.checkpointed = "checkpointlocation" in writer.options or any(
            "checkpointlocation" in key for key in interp.job.settings
        )
        if not target.name and format_ in {"console", "memory", "noop"}:
            return Value(name="query")
    if format_ in {"console", "memory", "noop"}:
        return Value()
    emit(interp, write)
    return Instance(kind="StreamingQuery", name="query") if writer.kind == "writeStream" else Const()


def _brings_no_id(writer: Writer) -> bool:
    """Return whether all columns are known and none is the id of the document, which MongoDB then generates."""
    columns = {column.name for column in writer.frame.query.columns}
    return (
        bool(columns) and not columns & {"", "*", "_id"} and not {"idfieldlist", "operationtype"} & set(writer.options)
    )


def _refine_overwrite(interp: Interpreter, writer: Writer, write: Write, node: ast.AST) -> None:
    if write.mode is not Mode.OVERWRITE:
        if "txnappid" in writer.options or "txnversion" in writer.options:
            write.options["txn"] = "yes"
        return
    where = writer.options.get("replacewhere")
    if where is not None:
        write.mode = Mode.REPLACE_WHERE
        for one in alternatives(where):
            if isinstance(one, Text):
                write.predicate = condition(interp, one, node)
                break
        else:
            write.predicate = as_expr(interp, where, node)
        return
    own = plain(writer.options.get("partitionoverwritemode"))
    session = interp.job.settings.get("spark.sql.sources.partitionoverwritemode", "")
    if (own or session).lower() == "dynamic":
        write.dynamic = True
        if write.partition or write.api == "insertInto" or write.target.kind == "table":
            write.mode = Mode.OVERWRITE_PARTITIONS


def _v2(interp: Interpreter, writer: Writer, name: str, arguments: list[Value], node: ast.Call) -> Value:
    modes = {
        "append": Mode.APPEND, "overwritePartitions": Mode.OVERWRITE_PARTITIONS, "overwrite": Mode.REPLACE_WHERE,
        "create": Mode.CREATE, "createOrReplace": Mode.OVERWRITE, "replace": Mode.OVERWRITE,
    }  # fmt: skip
    if name not in modes:
        return writer
    write = Write(
        target_of(interp, writer.state.get("table"), node),
        modes[name],
        chain_place(interp, node),
        query=writer.frame.query,
        via="dataframe",
        api=f"writeTo.{name}",
    )
    write.partition = tuple((column, None) for column in writer.partition)
    write.format = shown(writer.state.get("format")).lower()
    if name == "overwrite" and arguments:
        write.predicate = (
            condition(interp, arguments[0], node)
            if isinstance(arguments[0], Text)
            else as_expr(interp, arguments[0], node)
        )
    if name == "create":
        write.if_not_exists = bool(write.guarded_by) or _guarded(interp)
    emit(interp, write)
    return Const()


def _guarded(interp: Interpreter) -> bool:
    return any("exist" in guard.lower() for guard in interp.state.guards)


def _foreach_batch(interp: Interpreter, writer: Writer, function: Value | None, node: ast.Call) -> Value:
    from twice.audit.languages.python import frames

    if isinstance(function, Function) and function.node is not None:
        positional = [*function.node.args.posonlyargs, *function.node.args.args]
        offset = 1 if function.bound is not None and positional and positional[0].arg == "self" else 0
        batch = positional[offset + 1].arg if len(positional) > offset + 1 else "batch_id"
        frame = frames.unknown_frame("batch", interp.place(node))
        frame.query.sources = [
            replace(frame.query.sources[0], query=replace(writer.frame.query, streaming=False), kind="query")
        ]
        body = function.node.body if isinstance(function.node.body, list) else [function.node.body]
        used = names.mentions(body, batch)
        before_inside, before_batch = interp.state.inside, interp.state.batch_id
        interp.state.inside = "foreachBatch used" if used else "foreachBatch"
        interp.state.batch_id = batch
        try:
            interp.call_function(function, [frame, Value(name=batch, origins=frozenset())], {}, node)
        finally:
            interp.state.inside, interp.state.batch_id = before_inside, before_batch
    return writer


def frame_write(
    interp: Interpreter, frame: Frame, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """pandas, polars and pandas-on-Spark: df.to_sql, df.to_parquet …."""
    place = interp.place(node)
    first = arguments[0] if arguments else None
    if name in {"to_sql", "to_gbq", "write_database"}:
        chosen = keywords.get("if_exists") or keywords.get("if_table_exists")
        text = (plain(chosen) or "").lower()
        texts = [one.plain for one in alternatives(chosen) if isinstance(one, Text)] if chosen is not None else []
        mode = (
            Mode.APPEND
            if "append" in texts
            else {"replace": Mode.OVERWRITE, "append": Mode.APPEND}.get(text, Mode.CREATE)
        )
        target = target_of(
            interp,
            keywords.get("name") or keywords.get("destination_table") or keywords.get("table_name") or first,
            node,
        )
        write = Write(
            target,
            mode,
            place,
            query=frame.query,
            via="pandas",
            api=name,
            explicit_mode=chosen is None or _explicit(chosen),
            conditional=first_turn_overwrites(interp, chosen),
        )
        connection = keywords.get("con") or (arguments[1] if len(arguments) > 1 else None)
        if _is_engine(interp, connection):
            write.options["connection"] = "own"  # it opens one for the call, and commits it
        elif (
            connection is not None
            and interp.state.transaction is not None
            and "engine" not in shown(connection).lower()
        ):
            write.transaction = interp.state.transaction
        emit(interp, write)
        return Const()
    if name in {
        "to_csv",
        "to_parquet",
        "to_json",
        "to_excel",
        "to_feather",
        "to_pickle",
        "to_orc",
        "to_delta",
        "to_table",
        "write_parquet",
        "write_csv",
        "write_delta",
        "to_spark_io",
        "write_json",
        "sink_parquet",
    }:
        path = (
            keywords.get("path")
            or keywords.get("path_or_buf")
            or keywords.get("excel_writer")
            or keywords.get("name")
            or first
        )
        text = (plain(keywords.get("mode")) or "w").lower()
        mode = Mode.APPEND if text in {"a", "append"} else Mode.OVERWRITE
        if path is None or (name in {"to_csv", "to_json"} and path is None):
            return Value(origins=frame.origins)
        target = target_of(interp, path, node, kind="table" if name == "to_table" else "path")
        if names.LOG_FILE.search(target.name):
            return Const()
        write = Write(
            target,
            mode,
            place,
            query=frame.query,
            via="pandas",
            api=name,
            format=name.removeprefix("to_").removeprefix("write_"),
            conditional=first_turn_overwrites(interp, keywords.get("mode")),
        )
        emit(interp, write)
        return Const()
    return None


_ENGINE = re.compile(r"engine(\(.*\))?(\.\w+\(.*\))?$", re.IGNORECASE)


def _is_engine(interp: Interpreter, connection: Value | None) -> bool:
    """Return whether rows are handed to an engine rather than to an open connection."""
    name = shown(connection).strip("{}")
    made = interp.assignments.get(name)
    return bool(_ENGINE.search(name)) or (
        isinstance(made, ast.Call) and interp.source(made.func).rpartition(".")[2] == "create_engine"
    )
