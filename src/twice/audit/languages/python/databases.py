"""SQL that a Python file hands to Spark, a cursor, a hook or a client."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.classifying import watermark_of
from twice.audit.expressions import Expr
from twice.audit.languages.building import Surroundings
from twice.audit.languages.python import names
from twice.audit.languages.python.pieces import format_text
from twice.audit.languages.python.sqltexts import render
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Instance,
    Items,
    Klass,
    Piece,
    Text,
    Value,
    alternatives,
    constant,
    origins_of,
    plain,
    shown,
)
from twice.audit.languages.sql.dialects import guess
from twice.audit.languages.sql.reading import SqlReading, read_sql
from twice.audit.languages.sql.statements import Read
from twice.audit.model import Mode, Target, Write
from twice.audit.queries import Query
from twice.audit.vocabulary import is_key_column

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_SPARK_SQL = re.compile(
    r"(^|\.)(spark|sqlContext|session|spark_session|ss|sc|hiveContext|sqlcontext|hc|spark_context|self\.spark|_spark)\.sql$"
)
_DOCUMENTS = frozenset({"insert_many", "insert_one", "delete_many", "drop"})
# Stores of documents: Cosmos DB, DynamoDB, MongoDB.
_ITEMS = frozenset({"create_item", "upsert_item", "put_item", "insert_one"})
_MONGO = re.compile(r"mongo|motor", re.IGNORECASE)
# A document that names itself is refused the second time.
_OWN_ID = re.compile(r"""["']_id["']\s*\]\s*=|["']_id["']\s*:\s*(?![0{]|False|1\b)|\b_id\s*=""")
_UNIQUE_INDEX = re.compile(r"create_index(es)?\([^)]*unique\s*=\s*True|ensure_index\([^)]*unique", re.DOTALL)
_AUTOCOMMIT = re.compile(r"snowflake|bigquery|spark|hive|athena|presto|trino|databricks|clickhouse", re.IGNORECASE)
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
    around: Surroundings | None = None,
) -> Value:  # fmt: skip
    """Run SQL texts, in order, and return the last result."""
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
                    item.stream_batch_id = interp.state.batch_id
                    item.stream = bool(interp.state.batch_id)
                    item.batch_id_used = interp.state.inside == "foreachBatch used"
                fresh.append(item)
            interp.builder.add_items(fresh, around)
        if reads:
            query = reads[-1].query
            interp.builder.bind(query)
            result = result_of(interp, query, node) if not spark else Frame(query=query)
            if not spark or _only_displayed(query):
                interp.builder.job.queries.append(query)
    if not texts:
        return Value(origins=origins_of(value) if value is not None else frozenset(), name="result")
    return result


def _only_displayed(query: Query) -> bool:
    return False


def result_of(interp: Interpreter, query: Query, node: ast.AST) -> Value:
    """Return what a database query gives: rows, a watermark, or a DataFrame of pandas."""
    watermark = watermark_of(query)
    origins = frozenset({watermark}) if watermark is not None else frozenset()
    return Frame(query=query, origins=origins)


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
        return run(interp, _one_row(arguments[1], rows), node, hint="postgres", given=rows)
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
    if last in _ITEMS:
        _own_keys(interp, [*arguments, *keywords.values()], node)
    if last in {"execute", "delete"} and _orm_delete(interp, full, base, node):
        return Const()
    if last in _DOCUMENTS and any(_MONGO.search(one) for one in interp.job.imports):
        return _document(interp, base, last, arguments, node)
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
    } or full.endswith("write_pandas"):
        return _bulk(interp, full, last, arguments, keywords, node)
    config = next((one for one in alternatives(keywords.get("job_config")) if isinstance(one, Instance)), None)
    if last == "query" and config is not None and "destination" in config.attributes and arguments:
        return _query_into(interp, arguments[0], config, node)
    if last.endswith(("Error", "Exception", "Warning")):  # "COPY cannot be used here" is no statement
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
        if given is not None and not isinstance(given, (Items, Entries)):
            given = None
        spark = bool(re.search(r"spark|sqlContext", base)) or full == "spark.sql" or (last == "sql" and interp.spark)
        around = interp.around(
            transaction=_transaction(interp, full, base, keywords), one_transaction=_one_transaction(full, keywords)
        )
        result = run(interp, value, node, hint=f"{full} {base}", spark=spark, given=given, around=around)
        if isinstance(result, Frame):
            interp.scope.names["__last_result__"] = result
        return result
    return None


def _query_into(interp: Interpreter, sql: Value, config: Instance, node: ast.Call) -> Value:
    """client.query(sql, job_config=QueryJobConfig(destination=…, write_disposition=…)) of BigQuery."""
    from twice.audit.languages.python.writers import emit, target_of

    disposition = shown(config.attributes.get("write_disposition")) + getattr(
        config.attributes.get("write_disposition"), "name", ""
    )
    target = target_of(interp, config.attributes["destination"], node)
    mode = Mode.OVERWRITE if "TRUNCATE" in disposition else Mode.APPEND if "APPEND" in disposition else Mode.CREATE
    if "$" in target.name and mode is Mode.OVERWRITE:
        mode = Mode.OVERWRITE_PARTITIONS
    text = next((one for one in alternatives(sql) if isinstance(one, Text)), None)
    query = query_of(interp, text, node) if text is not None else None
    emit(interp, Write(target, mode, interp.place(node), query=query, via="operator", api="client.query"))
    return Value(name="query job")


def _is_sql(text: str) -> bool:
    """Tell whether a text that begins with a value goes on as SQL."""
    return not text.lstrip().startswith("{") or bool(
        re.search(r"\b(select|insert|delete|update|merge|truncate|create)\b", text, re.IGNORECASE)
    )


def _last_result(interp: Interpreter) -> Frame | None:
    found = interp.scope.get("__last_result__")
    return found if isinstance(found, Frame) else None


def _transaction(interp: Interpreter, full: str, base: str, keywords: dict[str, Value]) -> int | None:
    if _AUTOCOMMIT.search(full) or constant(keywords.get("autocommit")) is True or interp.autocommit:
        return None
    if interp.state.transaction is not None:
        return interp.state.transaction
    if (
        re.search(r"cur|conn|session|\bdb\b|cnx|con\b|engine|hook|tx|trans", base, re.IGNORECASE)
        and interp.connections >= 0
    ):
        interp.state.transaction = interp.builder.new_transaction()
    return interp.state.transaction


def _one_transaction(full: str, keywords: dict[str, Value]) -> bool:
    return (
        "hook" in full.lower()
        and full.endswith(".run")
        and constant(keywords.get("autocommit")) is not True
        and not _AUTOCOMMIT.search(full)
    )


def _document(interp: Interpreter, base: str, last: str, arguments: list[Value], node: ast.Call) -> Value | None:
    """MongoDB: insert_many and insert_one append, unless the documents bring their own _id; delete_many empties."""
    from twice.audit.languages.python.writers import emit

    if last == "drop" and arguments:
        return None
    named = re.search(r"""\[["']([\w.-]+)["']\]$""", base)
    target = Target((named[1] if named else base.rpartition(".")[2] or "collection").lower())
    mode = Mode.APPEND if last.startswith("insert") else Mode.DELETE
    if mode is Mode.APPEND and (_OWN_ID.search(interp.job.text) or _UNIQUE_INDEX.search(interp.job.text)):
        return Const()
    found = next((one for value in arguments for one in alternatives(value) if isinstance(one, Frame)), None)
    query = found.query if found is not None else None
    emit(interp, Write(target, mode, interp.place(node), query=query, via="mongo", api=last))
    return Const()


def _own_keys(interp: Interpreter, values: list[Value], node: ast.Call) -> None:
    """Note what the keys of a document come from: {"id": str(uuid4())}."""
    documents = [one for value in values for one in alternatives(value) if isinstance(one, Entries)]
    for name, given in (item for one in documents for item in one.items.items() if is_key_column(item[0])):
        random = frozenset(origin for origin in origins_of(given) if origin.kind == "random")
        interp.use(random, "key", node, column=name)


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
    name = plain(model.env.get("__tablename__")) if isinstance(model, Klass) else None
    target = Target(name.lower() if name else f"{{{model.name or interp.source(inner.args[0])}.__tablename__}}")
    some = Expr("other", "where", place=interp.place(node)) if narrowed else None
    around = interp.around(transaction=_transaction(interp, full, base, {}))
    write = Write(target, Mode.DELETE, interp.place(node), predicate=some, via="dbapi", api="delete")
    mark = (write.place, target.name, write.mode, "orm")
    if not interp.quiet and mark not in interp.writes_seen:
        interp.writes_seen.add(mark)
        interp.builder.add_items([write], around)
    return True


def _opens_delete(call: ast.Call, node: ast.Call) -> bool:
    """Tell whether a call names the table that is emptied: delete(Orders), session.query(Orders)."""
    if node.args:
        return isinstance(call.func, ast.Name) and call.func.id == "delete"
    return isinstance(call.func, ast.Attribute) and call.func.attr == "query"


def _bulk(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Loads that append rows without saying so."""
    from twice.audit.languages.python.writers import emit, target_of

    if last in {"insert_many", "insert_one", "bulk_save_objects", "add_all"}:
        return None
    where = keywords.get("table") or keywords.get("table_name") or keywords.get("destination")
    if where is None:
        index = 1 if last.startswith("load_table_from") or last in {"copy_from", "write_pandas"} else 0
        if last == "write_pandas":
            index = 2
        where = arguments[index] if len(arguments) > index else None
    mode = Mode.APPEND
    text = interp.source(node)
    config = keywords.get("job_config")
    disposition = shown(config) + text
    if isinstance(config, Instance):
        disposition += " ".join(shown(value) + value.name for value in config.attributes.values())
    elif config is not None:
        disposition += config.name
    explicit = "WRITE_APPEND" in disposition
    if "WRITE_TRUNCATE" in disposition or "overwrite=True" in text:
        mode = Mode.OVERWRITE
    elif "WRITE_EMPTY" in disposition:
        mode = Mode.CREATE
    elif constant(keywords.get("replace")) is True:  # hook.insert_rows(…, replace=True, replace_index=…)
        mode = Mode.UPSERT
    target = target_of(interp, where, node)
    if "$" in target.name and mode is Mode.OVERWRITE:
        mode = Mode.OVERWRITE_PARTITIONS
    frame = next((one for value in arguments for one in alternatives(value) if isinstance(one, Frame)), None)
    emit(
        interp,
        Write(
            target,
            mode,
            interp.place(node),
            query=frame.query if frame else None,
            via="copy",
            api=last,
            explicit_mode=explicit,
        ),
    )
    return Value(name=last)
