"""Loads without SQL: clients of warehouses, bulk inserts, stores of documents."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from twice.audit.languages.python.databases import query_of
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Instance,
    Items,
    Text,
    Value,
    alternatives,
    constant,
    frame_of,
    origins_of,
    shown,
)
from twice.audit.languages.python.writers import emit, target_of
from twice.audit.model import Mode, Target, Write
from twice.audit.vocabulary import is_key_column

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

DOCUMENTS = frozenset({"insert_many", "insert_one", "delete_many", "drop"})


# Stores of documents: Cosmos DB, DynamoDB, MongoDB.
ITEMS = frozenset({"create_item", "upsert_item", "put_item", "insert_one"})


MONGO = re.compile(r"mongo|motor", re.IGNORECASE)


APPENDS = frozenset({"insert", "append_row", "append_rows"})


INDEXING = frozenset({"bulk", "streaming_bulk", "parallel_bulk", "async_bulk", "index"})


SEARCH = re.compile(r"elasticsearch|opensearch", re.IGNORECASE)


# A document that names itself is refused the second time.
_OWN_ID = re.compile(r"""["']_id["']\s*\]\s*=|["']_id["']\s*:\s*(?![0{]|False|1\b)|\b_id\s*=""")


# What a row is looked for by says nothing about what is inserted.
_FILTER = re.compile(
    r"""\b(Update(One|Many)|ReplaceOne|DeleteOne|(update|replace|delete)_(one|many)|find(_one)?\w*)\(\s*(filter\s*=\s*)?\{\s*["']_id["']""",
)


_UNIQUE_INDEX = re.compile(r"create_index(es)?\([^)]*unique\s*=\s*True|ensure_index\([^)]*unique", re.DOTALL)


def query_into(interp: Interpreter, sql: Value, config: Instance, node: ast.Call) -> Value:
    """client.query(sql, job_config=QueryJobConfig(destination=…, write_disposition=…)) of BigQuery."""
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


def note_document(interp: Interpreter, base: str, last: str, arguments: list[Value], node: ast.Call) -> Value | None:
    """MongoDB: insert_many and insert_one append, unless the documents bring their own _id; delete_many empties."""
    if last == "drop" and arguments:
        return None
    named = re.search(r"""\[["']([\w.-]+)["']\]$""", base)
    target = Target((named[1] if named else base.rpartition(".")[2] or "collection").lower())
    mode = Mode.APPEND if last.startswith("insert") else Mode.DELETE
    if mode is Mode.APPEND and (
        _OWN_ID.search(_FILTER.sub("", interp.job.text)) or _UNIQUE_INDEX.search(interp.job.text)
    ):
        return Const()
    found = frame_of(*arguments)
    query = found.query if found is not None else None
    emit(interp, Write(target, mode, interp.place(node), query=query, via="mongo", api=last))
    return Const()


def note_indexed(
    interp: Interpreter, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Elasticsearch and OpenSearch: a document without an id gets a new one on every run."""
    if last == "index" and ("index" not in keywords or {"id", "_id"} & set(keywords)):
        return None
    if _OWN_ID.search(interp.job.text):
        return Const()
    given = [one for value in arguments for one in alternatives(value)]
    documents = [inner for one in given for inner in (one.items if isinstance(one, Items) else [one])]
    named = next((one.items["_index"] for one in documents if isinstance(one, Entries) and "_index" in one.items), None)
    target = Target(shown(keywords.get("index") or named).lower() or "index")
    frame = frame_of(*arguments)
    query = frame.query if frame is not None else None
    emit(interp, Write(target, Mode.APPEND, interp.place(node), query=query, via="search", api=last))
    return Const()


def appends_rows(interp: Interpreter, base: str, last: str, arguments: list[Value], node: ast.Call) -> bool:
    """ClickHouse's client.insert("t", rows), Supabase's table("t").insert(rows), a sheet's append_rows(rows)."""
    imports = " ".join(interp.job.imports).lower()
    if last == "insert" and "clickhouse" in imports and len(arguments) > 1:
        target = target_of(interp, arguments[0], node)
    elif last == "insert" and ("supabase" in imports or "postgrest" in imports):
        named = re.search(r"""\.(?:table|from_)\(["']([\w.]+)["']\)""", interp.source(node))
        target = Target(named[1].lower() if named else "table")
    elif last != "insert" and "gspread" in imports:
        target = Target(base.rpartition(".")[2].lower() or "sheet")
    else:
        return False
    frame = frame_of(*arguments)
    query = frame.query if frame is not None else None
    emit(interp, Write(target, Mode.APPEND, interp.place(node), query=query, via="client", api=last))
    return True


def note_own_keys(interp: Interpreter, values: list[Value], node: ast.Call) -> None:
    """Note what the keys of a document come from: {"id": str(uuid4())}."""
    documents = [one for value in values for one in alternatives(value) if isinstance(one, Entries)]
    for name, given in (item for one in documents for item in one.items.items() if is_key_column(item[0])):
        random = frozenset(origin for origin in origins_of(given) if origin.kind == "random")
        interp.use(random, "key", node, column=name)


def load_in_bulk(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Loads that append rows without saying so."""
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
    elif "row_ids" in keywords:  # BigQuery drops rows whose id it has seen
        mode = Mode.INSERT_NEW
    elif constant(keywords.get("replace")) is True:  # hook.insert_rows(…, replace=True, replace_index=…)
        mode = Mode.UPSERT
    target = target_of(interp, where, node)
    if "$" in target.name and mode is Mode.OVERWRITE:
        mode = Mode.OVERWRITE_PARTITIONS
    frame = frame_of(*arguments)
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
