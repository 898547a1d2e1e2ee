"""What a job reads: spark.read, spark.table, pandas, files, requests."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import databases, dstreams, frame_methods, frames, names, writers
from twice.audit.languages.python.sqltexts import as_expr
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Instance,
    Items,
    Name,
    Piece,
    Reader,
    Text,
    Value,
    alternatives,
    origins_of,
    plain,
    shown,
)
from twice.audit.model import Mode, Write
from twice.audit.queries import Column, Query

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_PANDAS = re.compile(
    r"^(pandas|polars|pd|pl|pyspark\.pandas|ps|dask\.dataframe|dd|awswrangler(\.\w+)?|wr(\.\w+)?|geopandas)\.(read_\w+|scan_\w+|DataFrame|from_dict|from_records|concat|merge|json_normalize)$"
)


def method(
    interp: Interpreter, reader: Reader, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a method of spark.read or spark.readStream."""
    first = arguments[0] if arguments else None
    if name == "format":
        return replace(reader, state={**reader.state, "format": first or Value()})
    if name == "option":
        key = plain(first) if first is not None else None
        value = arguments[1] if len(arguments) > 1 else keywords.get("value", Value())
        return replace(reader, options={**reader.options, (key or "").lower(): value})
    if name == "options":
        return replace(reader, options={**reader.options, **{key.lower(): value for key, value in keywords.items()}})
    if name == "schema":
        return reader
    if name == "table":
        return _frame(interp, reader, first or Value(), node, kind="table")
    if name in {"load", "parquet", "csv", "json", "orc", "text", "avro", "delta", "xml", "textFile"}:
        format_ = plain(reader.state.get("format")) or name
        if (
            format_ in {"jdbc", "snowflake", "bigquery", "net.snowflake.spark.snowflake", "redshift"}
            or "query" in reader.options
        ):
            return _database(interp, reader, node)
        path = first or keywords.get("path") or reader.options.get("path") or Value()
        if format_ == "kafka":
            path = reader.options.get("subscribe") or Value()
        return _frame(interp, reader, path, node, kind="path", format_=format_)
    if name == "jdbc":
        table = keywords.get("table") or (arguments[1] if len(arguments) > 1 else None)
        given = {"dbtable": table or Value(), "url": keywords.get("url") or first or Value()}
        return _database(interp, replace(reader, options={**reader.options, **given}), node)
    return reader


def _frame(interp: Interpreter, reader: Reader, value: Value, node: ast.AST, *, kind: str, format_: str = "") -> Frame:
    path = path_expr(interp, value, node)
    return frames.table_frame(
        interp, shown(value).strip(), interp.place(node), path, kind=kind, stream=reader.stream, format_=format_
    )


def path_expr(interp: Interpreter, value: Value, node: ast.AST) -> Expr | None:
    """Return a path as an expression, if where it comes from may matter."""
    origins = frozenset(one for one in origins_of(value) if one.kind != "parameter")
    name = shown(value).strip().lower()
    if origins and any(write.target.temporary and write.target.name == name for write in interp.job.writes):
        return None  # what the job itself has put there
    return Expr("python", shown(value)[:80], place=interp.place(node), origins=origins) if origins else None


def _database(interp: Interpreter, reader: Reader, node: ast.AST) -> Frame:
    given = reader.options.get("query") or reader.options.get("dbtable") or reader.options.get("table")
    for one in alternatives(given):
        if isinstance(one, Text):
            text = one.shown.strip()
            if re.match(r"\(?\s*(select|with)\b", text, re.IGNORECASE):
                query = databases.query_of(interp, _unwrapped(one), node)
                if query is not None:
                    return Frame(query=query)
            server = shown(reader.options.get("url"))
            return frames.table_frame(interp, text, interp.place(node), path_expr(interp, one, node), server=server)
    return frames.unknown_frame("", interp.place(node), origins_of(given) if given is not None else frozenset())


# SparkSession(sc), and helpers of other packages that hand one out.
_SESSION = re.compile(
    r"^SparkSession$|^(get|create|build|init|initiali[sz]e|start|make|setup|set_up|new|load)_?\w*spark(_?session)?$",
    re.IGNORECASE,
)


def _unwrapped(text: Text) -> Text:
    """Remove the brackets and the alias of `(SELECT …) AS t`."""
    pieces = list(text.pieces)
    if pieces and isinstance(pieces[0], Piece) and pieces[0].text.lstrip().startswith("("):
        pieces[0] = Piece(pieces[0].text.replace("(", " ", 1), pieces[0].lines)
        last = pieces[-1]
        if isinstance(last, Piece):
            pieces[-1] = Piece(re.sub(r"\)\s*(as\s+)?\w*\s*$", "", last.text, flags=re.IGNORECASE), last.lines)
    return replace(text, pieces=pieces)


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Functions that read."""
    first = arguments[0] if arguments else None
    last = dotted.rpartition(".")[2]
    if dotted in {"spark.table", "spark.read.table"} or (
        last == "table" and dotted.endswith(("sqlContext.table", "session.table"))
    ):
        return frames.table_frame(interp, shown(first), interp.place(node), path_expr(interp, first or Value(), node))
    if dotted in {"dlt.read", "dlt.read_stream", "dp.read", "dp.read_stream"} and first is not None:
        stream = last == "read_stream"
        return frames.table_frame(interp, shown(first), interp.place(node), stream=stream)
    if _SESSION.search(last) and not dotted.startswith("spark"):
        return Name(dotted="spark", name="spark")
    if dotted.startswith("spark.builder") or dotted.endswith(("SparkSession.builder", "getOrCreate")):
        if last == "config" and len(arguments) == 2:
            interp.job.settings[shown(arguments[0]).lower()] = shown(arguments[1]).lower()
        return Name(dotted="spark" if last == "getOrCreate" else "spark.builder", name="spark")
    if last == "newSession" and dotted.startswith("spark"):
        return Name(dotted="spark", name="spark")
    if dotted in {"spark.conf.set", "sqlContext.setConf"} and len(arguments) >= 2:
        interp.job.settings[shown(arguments[0]).lower()] = shown(arguments[1]).lower()
        return Const()
    if (
        dotted
        in {"spark.createDataFrame", "sqlContext.createDataFrame", "spark.sparkContext.parallelize", "sc.parallelize"}
        or last == "createDataFrame"
    ):
        return rows_frame(
            interp, first or Value(), node, schema=arguments[1] if len(arguments) > 1 else keywords.get("schema")
        )
    if dotted == "spark.range":
        return frames.unknown_frame("range", interp.place(node))
    match = _PANDAS.match(dotted)
    if match:
        return _pandas(interp, match[last and 4] or last, first, arguments, keywords, node)
    if dotted in {"open", "io.open", "codecs.open", "gzip.open", "smart_open.open"} and first is not None:
        return _open(interp, first, arguments, keywords, node)
    if dotted in {
        "json.load",
        "json.loads",
        "yaml.safe_load",
        "yaml.load",
        "csv.DictReader",
        "csv.reader",
        "pickle.load",
    }:
        return Value(origins=origins_of(first) if first is not None else frozenset(), name=interp.source(node)[:60])
    if dotted in {"pyspark.sql.Row", "Row"}:
        return Entries(items=dict(keywords))
    if dotted == "glob.glob":
        return None
    return None


def rows_frame(interp: Interpreter, rows: Value, node: ast.AST, schema: Value | None = None) -> Frame:
    """Return a DataFrame of rows that the file itself makes."""
    frame = frames.unknown_frame(
        rows.name,
        interp.place(node),
        frozenset(one for one in origins_of(rows) if one.kind not in {"parameter", "clock", "random"}),
    )
    query = Query(place=interp.place(node), language="dataframe", sources=frame.query.sources)
    names_ = [shown(item).lower() for item in schema.items] if isinstance(schema, Items) else []
    if isinstance(schema, Text) and schema.plain:
        names_ = [part.strip().split(" ")[0].split(":")[0].lower() for part in schema.plain.split(",")]
    for item in rows.items[:10] if isinstance(rows, Items) else [rows]:
        if isinstance(item, Entries):
            query.columns.extend(
                Column(name.lower(), as_expr(interp, value, node), interp.place(node))
                for name, value in item.items.items()
            )
        elif isinstance(item, Items):
            for index, value in enumerate(item.items):
                name = names_[index] if index < len(names_) else ""
                query.columns.append(Column(name, as_expr(interp, value, node), interp.place(node)))
        elif isinstance(item, Frame):
            return dstreams.named(item, names_)
        else:
            query.columns.append(
                Column(
                    "*",
                    Expr("python", item.name, place=interp.place(node), origins=origins_of(item) | rows.origins),
                    interp.place(node),
                )
            )
    return Frame(query=query, origins=frame.origins, name=rows.name)


def _pandas(
    interp: Interpreter,
    name: str,
    first: Value | None,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
) -> Value:
    place = interp.place(node)
    if name in {"read_sql", "read_sql_query", "read_gbq", "read_database", "read_sql_table"}:
        text = first or keywords.get("sql") or keywords.get("query")
        for one in alternatives(text):
            if isinstance(one, Text):
                query = databases.query_of(interp, one, node, keywords.get("params"))
                if query is not None:
                    return databases.result_of(interp, replace(query, language=query.language), node)
        return frames.unknown_frame("", place)
    if name.startswith(("read_", "scan_")):
        path = (
            first
            or keywords.get("path")
            or keywords.get("filepath_or_buffer")
            or keywords.get("io")
            or keywords.get("source")
            or Value()
        )
        return replace(
            frames.table_frame(
                interp,
                shown(path),
                place,
                path_expr(interp, path, node),
                kind="path",
                format_=name.removeprefix("read_"),
            ),
            name="",
        )
    if name == "DataFrame":
        if isinstance(first, Entries):
            columns = [Column(key.lower(), as_expr(interp, value, node), place) for key, value in first.items.items()]
            return Frame(query=Query(columns=columns, place=place, language="pandas"))
        return rows_frame(interp, first or keywords.get("data") or Value(), node, keywords.get("columns"))
    if name == "concat":
        items = [one for one in (first.items if isinstance(first, Items) else []) if isinstance(one, Frame)]
        query = Query(branches=[one.query for one in items], place=place, language="pandas")
        return (
            Frame(query=query)
            if items
            else frames.unknown_frame("", place, origins_of(first) if first is not None else frozenset())
        )
    if name == "merge" and isinstance(first, Frame):
        found = frame_methods.method(interp, first, "merge", arguments[1:], keywords, node)
        return found or first
    return frames.unknown_frame("", place, origins_of(first) if first is not None else frozenset())


_DATA_FILE = re.compile(r"\.(csv|tsv|jsonl?|ndjson|parquet|avro)$", re.IGNORECASE)


def _open(
    interp: Interpreter, path: Value, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    mode = plain(arguments[1] if len(arguments) > 1 else keywords.get("mode")) or "r"
    text = shown(path)
    if names.LOG_FILE.search(text):
        interp.use(path, "file_name", node)
        return Instance(kind="file", attributes={"mode": arguments[1]} if len(arguments) > 1 else {}, name=text)
    if mode.startswith("a") and _DATA_FILE.search(text) and not names.TEMPORARY.search(text):
        write = Write(writers.target_of(interp, path, node, kind="path"), Mode.APPEND, interp.place(node))
        write.via, write.api = "file", "open"
        writers.emit(interp, write)
    if mode.startswith(("w", "a", "x")):
        interp.use(path, "temp" if names.TEMPORARY.search(text) else "file_name", node)
        return Instance(kind="file", name=text)
    return read_path(interp, path, node)


def read_path(interp: Interpreter, path: Value, node: ast.AST) -> Value:
    """Read a file whose name is known, or not."""
    unsteady = frozenset(
        one for one in origins_of(path) if one.kind in {"clock", "listing", "environment", "file", "random"}
    )
    if unsteady and not names.TEMPORARY.search(shown(path)):
        interp.use(unsteady, "input", node)
    state = re.search(
        r"state|watermark|checkpoint|last_run|bookmark|offset|cursor|hwm|last_", shown(path), re.IGNORECASE
    )
    origins = interp.origin("state", shown(path), node) if state else frozenset()
    return Value(origins=unsteady | origins, name=shown(path)[:60])


def unknown(
    interp: Interpreter,
    full: str,
    last: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value | None:
    """Calls of unknown objects that read something."""
    first = arguments[0] if arguments else None
    if last in {"from_options", "from_catalog"} and "create_dynamic_frame" in full:
        path = keywords.get("table_name") or keywords.get("connection_options") or Value()
        if path.name == "" and len(arguments) > 1 and isinstance(arguments[1], Entries):
            path = arguments[1]
        place = interp.place(node)
        made = Expr("python", shown(path), place=place, origins=origins_of(path))
        return frames.table_frame(interp, shown(path), place, path=made)
    if (
        last
        in {
            "list_objects_v2",
            "list_objects",
            "list_blobs",
            "get_paginator",
            "ls",
            "listStatus",
            "globStatus",
            "listdir",
            "list_keys",
            "list_files",
            "listobjects",
        }
        and first is None
    ) or last in {"ls", "listdir", "list_blobs", "list_keys", "listStatus", "globStatus"}:
        listed = interp.origin("listing", full, node)
        return Items(items=[Value(origins=listed, name="file")], origins=listed)
    if last in {"list_objects_v2", "list_objects"}:
        return Value(origins=interp.origin("listing", full, node), name=full)
    if last in {
        "download_file",
        "get_object",
        "download_blob",
        "open",
        "get_key",
        "load_string",
        "read_text",
        "download_fileobj",
        "retrieve_file",
        "get",
    }:
        given = frozenset(
            one
            for value in (*arguments, *keywords.values())
            for one in origins_of(value)
            if one.kind in {"clock", "listing", "file"}
        )
        if given and last != "get":
            interp.use(given, "input", node, detail=full)
            return Value(origins=given, name=full)
    if last in {"textFile", "wholeTextFiles"} and first is not None:
        return _frame(interp, Reader(), first, node, kind="path", format_="text")
    if last == "toDF" and owner is not None:
        return frames.unknown_frame(owner.name, interp.place(node), origins_of(owner))
    if last == "fromDF" and first is not None:
        return first
    return dstreams.unknown(interp, last, arguments, node, owner)
