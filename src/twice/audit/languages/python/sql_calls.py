"""Calls that run SQL: spark.sql, cursor.execute, hook.run, and any helper that is handed a statement."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import names
from twice.audit.languages.python.bulk_loads import (
    APPENDS,
    DOCUMENTS,
    INDEXING,
    ITEMS,
    MONGO,
    SEARCH,
    appends_rows,
    load_in_bulk,
    note_document,
    note_indexed,
    note_own_keys,
    query_into,
)
from twice.audit.languages.python.databases import run
from twice.audit.languages.python.orm import table_of
from twice.audit.languages.python.pieces import format_text
from twice.audit.languages.python.transactions import is_one_transaction, transaction_of
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Instance,
    Items,
    Piece,
    Text,
    Value,
    alternatives,
    constant,
    frame_of,
)
from twice.audit.model import Mode, Target, Write

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_SPARK_SQL = re.compile(
    r"(^|\.)(spark|sqlContext|session|spark_session|ss|sc|hiveContext|sqlcontext|hc|spark_context|self\.spark|_spark)\.sql$"
)


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """spark.sql and functions that run SQL."""
    first = arguments[0] if arguments else None
    if dotted.endswith(("LoadJobConfig", "QueryJobConfig")):
        return Instance(kind="job_config", attributes=dict(keywords), name="job_config")
    if _SPARK_SQL.search(dotted) and (first is not None or "sqlQuery" in keywords):
        given = keywords.get("args") or (arguments[1] if len(arguments) > 1 else None)
        text = first if first is not None else keywords.get("sqlQuery")
        extra = {key: value for key, value in keywords.items() if key not in {"args", "sqlQuery"}}
        if extra:
            for one in alternatives(text):
                if isinstance(one, Text):
                    text = format_text(one, [], extra, node.lineno)
        return run(interp, text, node, spark=True, given=given)
    if (
        dotted in {"psycopg2.extras.execute_values", "psycopg2.extras.execute_batch", "execute_values", "execute_batch"}
        and len(arguments) > 1
    ):
        rows = arguments[2] if len(arguments) > 2 else None
        return run(interp, _one_row(arguments[1], rows), node, hint="postgres", given=rows, rows=frame_of(rows))
    if dotted in {
        "sqlalchemy.text",
        "sqlalchemy.create_engine",
        "psycopg2.connect",
        "sqlite3.connect",
        "pyodbc.connect",
        "pymysql.connect",
        "snowflake.connector.connect",
        "duckdb.connect",
        "psycopg.connect",
        "mysql.connector.connect",
    }:
        if dotted == "sqlalchemy.text":
            return first
        autocommit = (
            constant(keywords.get("autocommit")) is True
            or "snowflake" in dotted
            or "duckdb" in dotted
            or constant(keywords.get("isolation_level")) == "AUTOCOMMIT"
        )
        if dotted != "sqlalchemy.create_engine":
            interp.autocommit = autocommit
            interp.state.transaction = None if autocommit else interp.builder.new_transaction()
        return Value(name=dotted)
    return None


def _one_row(statement: Value, rows: Value | None) -> Value:
    """Write `VALUES %s` with a placeholder for each column: execute_values puts a whole row there."""
    row = rows.items[0] if isinstance(rows, Items) and rows.items else None
    if not isinstance(statement, Text) or not isinstance(row, Items) or not row.items:
        return statement
    marks = "(" + ", ".join(["%s"] * len(row.items)) + ")"
    pieces = [
        replace(one, text=re.sub(r"(?i)(\bvalues\s*)%s", rf"\g<1>{marks}", one.text)) if isinstance(one, Piece) else one
        for one in statement.pieces
    ]
    return replace(statement, pieces=pieces)


def unknown(
    interp: Interpreter,
    full: str,
    last: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value | None:
    """cursor.execute(...), hook.run(...), client.query(...), and any helper that is handed a writing statement."""
    base = full.rpartition(".")[0]
    if last == "commit" and not arguments:
        interp.builder.commit()
        if interp.state.transaction is not None:
            interp.state.transaction = interp.builder.new_transaction()
        return Const()
    if last in {"set_session", "set_autocommit"}:
        interp.state.transaction = None
        return Const()
    if last in {
        "fetchone",
        "fetchall",
        "fetchmany",
        "scalar",
        "fetchval",
        "scalar_one",
        "one",
        "result",
        "to_dataframe",
        "mappings",
        "first",
        "fetch_pandas_all",
        "df",
        "to_arrow",
    }:
        frame = next((one for one in alternatives(owner) if isinstance(one, Frame)), None) or _last_result(interp)
        if frame is not None:
            if last in {"to_dataframe", "fetch_pandas_all", "df"}:
                return frame
            return Value(origins=frame.origins, name=interp.source(node)[:60])
    if last in ITEMS:
        note_own_keys(interp, [*arguments, *keywords.values()], node)
    if last in {"execute", "delete"} and _orm_delete(interp, full, base, node):
        return Const()
    if last in APPENDS and appends_rows(interp, base, last, arguments, node):
        return Const()
    if last in INDEXING and any(SEARCH.search(one) for one in interp.job.imports):
        return note_indexed(interp, last, arguments, keywords, node)
    if last in DOCUMENTS and any(MONGO.search(one) for one in interp.job.imports):
        return note_document(interp, base, last, arguments, node)
    if last in {
        "insert_rows",
        "insert_rows_json",
        "insert_df",
        "insert_dataframe",
        "insert_many",
        "insert_one",
        "bulk_insert_mappings",
        "bulk_save_objects",
        "add_all",
        "load_table_from_dataframe",
        "load_table_from_uri",
        "load_table_from_json",
        "copy_from",
        "bulk_load",
        "write_pandas",
        "load_table_from_file",
        "bigquery_load_file",
        "bigquery_load_cloud_storage",
        "bigquery_insert_stream",
    } or full.endswith("write_pandas"):
        return load_in_bulk(interp, full, last, arguments, keywords, node)
    config = next((one for one in alternatives(keywords.get("job_config")) if isinstance(one, Instance)), None)
    if last == "query" and config is not None and "destination" in config.attributes and arguments:
        return query_into(interp, arguments[0], config, node)
    if last.endswith(("Error", "Exception", "Warning")):  # "COPY cannot be used here" is not a statement
        return None
    candidates = [
        *arguments[:2],
        *(
            keywords[key]
            for key in ("sql", "query", "statement", "operation", "QueryString", "Sql", "stmt", "sql_query")
            if key in keywords
        ),
    ]
    for position, value in enumerate(candidates):
        text = next((one for one in alternatives(value) if isinstance(one, Text)), None)
        if text is None and isinstance(value, Items) and value.items and isinstance(value.items[0], Text):
            text = value.items[0]
        if text is None:
            continue
        head = text.shown
        known = last in names.SQL_METHODS and names.SQL_START.match(head) and _is_sql(head)
        if not known and not (
            names.SQL_WRITE.match(head)
            and not names.LOGGERS.search(base)
            and last not in {"format", "append", "write", "info", "debug", "join"}
        ):
            continue
        given = (
            arguments[position + 1]
            if position + 1 < len(arguments)
            else keywords.get("parameters") or keywords.get("params") or keywords.get("vars")
        )
        rows = frame_of(given, *arguments[position + 1 :])
        if given is not None and not isinstance(given, (Items, Entries)):
            given = None
        spark = bool(re.search(r"spark|sqlContext", base)) or full == "spark.sql" or (last == "sql" and interp.spark)
        around = interp.around(
            transaction=transaction_of(interp, full, base, keywords), one_transaction=is_one_transaction(full, keywords)
        )
        result = run(interp, value, node, hint=f"{full} {base}", spark=spark, given=given, around=around, rows=rows)
        if isinstance(result, Frame):
            interp.scope.names["__last_result__"] = result
        return result
    return None


def _is_sql(text: str) -> bool:
    """Return whether a text that begins with a value continues as SQL."""
    return not text.lstrip().startswith("{") or bool(
        re.search(r"\b(select|insert|delete|update|merge|truncate|create)\b", text, re.IGNORECASE)
    )


def _last_result(interp: Interpreter) -> Frame | None:
    found = interp.scope.get("__last_result__")
    return found if isinstance(found, Frame) else None


def _orm_delete(interp: Interpreter, full: str, base: str, node: ast.Call) -> bool:
    """SQLAlchemy: session.execute(delete(Orders).where(…)) and session.query(Orders).delete()."""
    if not any(one.startswith(("sqlalchemy", "sqlmodel")) for one in interp.job.imports):
        return False
    inner: ast.expr = node.args[0] if node.args else node.func
    narrowed = False
    while True:
        if isinstance(inner, ast.Attribute):
            narrowed = narrowed or inner.attr in {"where", "filter", "filter_by"}
            inner = inner.value
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and not _opens_delete(inner, node):
            inner = inner.func
        else:
            break
    if not (isinstance(inner, ast.Call) and inner.args and _opens_delete(inner, node)):
        return False
    model = interp.eval(inner.args[0])
    target = Target(table_of(model))
    some = Expr("other", "where", place=interp.place(node)) if narrowed else None
    around = interp.around(transaction=transaction_of(interp, full, base, {}))
    write = Write(target, Mode.DELETE, interp.place(node), predicate=some, via="dbapi", api="delete")
    mark = (write.place, target.name, write.mode, "orm")
    if not interp.quiet and mark not in interp.writes_seen:
        interp.writes_seen.add(mark)
        interp.builder.add_items([write], around)
    return True


def _opens_delete(call: ast.Call, node: ast.Call) -> bool:
    """Return whether a call names the table that is emptied: delete(Orders), session.query(Orders)."""
    if node.args:
        return isinstance(call.func, ast.Name) and call.func.id == "delete"
    return isinstance(call.func, ast.Attribute) and call.func.attr == "query"
