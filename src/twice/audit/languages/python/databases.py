"""SQL that a Python file hands to Spark, a cursor, a hook or a client."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.classifying import watermark_of
from twice.audit.languages.building import Surroundings
from twice.audit.languages.python.lookups import is_looked_up
from twice.audit.languages.python.sqltexts import render
from twice.audit.languages.python.values import (
    Frame,
    Items,
    Text,
    Value,
    alternatives,
    origins_of,
)
from twice.audit.languages.sql.dialects import guess
from twice.audit.languages.sql.items import Read
from twice.audit.languages.sql.reading import SqlReading, read_sql
from twice.audit.model import Write
from twice.audit.queries import Query, Source

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_DIALECT_WORDS = (("snowflake", "snowflake"), ("bigquery", "bigquery"), ("redshift", "redshift"), ("postgres", "postgres"), ("psycopg", "postgres"), ("mssql", "tsql"),
                  ("pyodbc", "tsql"), ("mysql", "mysql"), ("sqlite", "sqlite"), ("duckdb", "duckdb"), ("athena", "athena"), ("trino", "trino"), ("hive", "hive"), ("oracle", "oracle"), ("clickhouse", "clickhouse"))  # fmt: skip


def dialect_of(interp: Interpreter, hint: str, text: str, *, spark: bool) -> str:
    """Return the dialect of SQL in a Python file: what runs it decides, then its words."""
    if interp.job.dialect:
        return interp.job.dialect
    if spark:
        return "databricks"
    lowered = hint.lower()
    for word, dialect in _DIALECT_WORDS:
        if word in lowered:
            return dialect
    everything = " ".join(interp.job.imports).lower()
    for word, dialect in _DIALECT_WORDS:
        if word in everything:
            return dialect
    return guess(text, default="postgres")


def _read(
    interp: Interpreter, text: Text, node: ast.AST, hint: str, *, spark: bool, given: Value | None = None
) -> SqlReading:
    source = render(interp, text, node, given)
    reading = read_sql(source, dialect_of(interp, hint, source.text, spark=spark))
    for table, columns in reading.constraints.items():
        interp.builder.constraints.setdefault(table, set()).update(columns)
    return reading


def query_of(
    interp: Interpreter, text: Text, node: ast.AST, given: Value | None = None, *, spark: bool = False
) -> Query | None:
    """Read a text as one query."""
    reading = _read(interp, text, node, "", spark=spark, given=given)
    for item in reading.items:
        if isinstance(item, Read):
            interp.builder.bind(item.query)
            return item.query
    return None


def run(
    interp: Interpreter, value: Value | None, node: ast.AST, *, hint: str = "", spark: bool = False, given: Value | None = None,
    around: Surroundings | None = None, rows: Frame | None = None,
) -> Value:  # fmt: skip
    """Run SQL texts, in order, and return the last result; `rows` is the DataFrame whose rows are bound to them."""
    result: Value = Value(name="result")
    texts: list[Text] = []
    for one in alternatives(value):
        if isinstance(one, Text):
            texts.append(one)
        elif isinstance(one, Items):
            texts.extend(inner for item in one.items for inner in alternatives(item) if isinstance(inner, Text))
    around = around or interp.around(transaction=interp.state.transaction)
    if around.one_transaction and len(texts) > 1:  # hook.run([…]) and sql=[…] commit once, at the end
        around = replace(around, one_transaction=False, transaction=interp.builder.new_transaction())
    for text in texts:
        head = text.shown.strip()
        if head.lower().endswith((".sql", ".hql")) or not head:
            continue
        reading = _read(interp, text, node, hint, spark=spark, given=given)
        interp.job.problems.extend(reading.problems if not interp.quiet else [])
        reads = [item for item in reading.items if isinstance(item, Read)]
        others = [item for item in reading.items if not isinstance(item, Read)]
        if not interp.quiet:
            fresh = []
            for item in others:
                if isinstance(item, Write):
                    mark = (item.place, item.target.name, item.mode, "sql")
                    if mark in interp.writes_seen:
                        continue
                    interp.writes_seen.add(mark)
                    _read_rows(item, rows)
                    item.looked_up = bool(interp.asked) and is_looked_up(interp, item, node)
                    if item.via == "copy":  # what it copies is not a table, but its address may move
                        moves = frozenset(one for one in origins_of(text) if one.kind in {"clock", "listing", "file"})
                        interp.use(moves, "input", node)
                    item.stream_batch_id = interp.state.batch_id
                    item.stream = bool(interp.state.batch_id)
                    item.batch_id_used = interp.state.inside == "foreachBatch used"
                fresh.append(item)
            interp.builder.add_items(fresh, around)
        if reads:
            query = reads[-1].query
            interp.builder.bind(query)
            result = result_of(interp, query, node) if not spark else Frame(query=query)
            if not spark:
                interp.builder.job.queries.append(query)
                interp.asked.append((node, query))
    if not texts:
        return Value(origins=origins_of(value) if value is not None else frozenset(), name="result")
    return result


def _read_rows(write: Write, rows: Frame | None) -> None:
    """Let INSERT … VALUES (?, ?) read the DataFrame whose rows it is given."""
    if rows is not None and write.literal_rows and write.query is not None and not write.query.sources:
        write.query.sources.append(Source("", "rows", rows.query, place=rows.query.place, kind="query"))
        write.literal_rows = False


def result_of(interp: Interpreter, query: Query, node: ast.AST) -> Value:
    """Return what a database query gives: rows, a watermark, or a DataFrame of pandas."""
    watermark = watermark_of(query)
    origins = frozenset({watermark}) if watermark is not None else frozenset()
    return Frame(query=query, origins=origins)
