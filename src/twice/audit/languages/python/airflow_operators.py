"""Airflow's operators: the tasks that they make, and what they write."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.languages.python import databases, effects
from twice.audit.languages.python.schedules import place_of
from twice.audit.languages.python.scopes import State
from twice.audit.languages.python.values import (
    Entries,
    Function,
    Instance,
    Items,
    Text,
    Value,
    alternatives,
    constant,
    origins_of,
    shown,
)
from twice.audit.languages.python.writers import emit, target_of
from twice.audit.model import Mode, Task, Write

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def operator(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> Value:
    """Note a task that an operator makes, and what it writes."""
    task = shown(keywords.get("task_id")) or name
    found = interp.job.orchestration
    if not found.system:
        found.system = "airflow"
    retries = constant(keywords.get("retries"))
    own = retries if isinstance(retries, int) and not isinstance(retries, bool) else None
    function_ = next((one for one in alternatives(keywords.get("python_callable")) if isinstance(one, Function)), None)
    templated = bool(
        re.search(
            r"\{\{\s*(ds|ts|execution_date|data_interval|logical_date|next_ds|prev_ds|macros|yesterday_ds|tomorrow_ds|dag_run)",
            _all_text(keywords),
        )
    )
    if templated:
        found.uses_logical_date = True
    if not interp.quiet:
        place = place_of(interp, node, "retries") if own is not None else None
        found.tasks.append(
            Task(
                task,
                name,
                interp.place(node),
                function_.name if function_ else "",
                retries=own,
                retries_place=place,
                templated=templated,
            )
        )
    instance = Instance(
        kind=name, attributes={"task_id": Text(pieces=[]), "output": Value()}, name=task, place=interp.place(node)
    )
    effects.operator(interp, name, keywords, node, task)
    for key, value in keywords.items():
        if key not in {"start_date", "end_date", "sql", "hql", "query", "default_args", "dag"}:
            interp.use(
                frozenset(one for one in origins_of(value) if one.kind == "clock"),
                "argument",
                node,
                detail=f"{name} {key}",
            )
    _operator_writes(interp, name, keywords, node, task, own)
    if function_ is not None:
        state = State(task=task, retries=own)
        bound = keywords.get("op_kwargs")
        if isinstance(bound, Entries) and bound.items:
            before, interp.state = interp.state, state
            interp.call_function(function_, [], dict(bound.items), node)
            interp.state = before
        else:
            interp.pending.append((function_, state))
    return instance


def _all_text(keywords: dict[str, Value]) -> str:
    found: list[str] = []
    for value in keywords.values():
        for one in alternatives(value):
            if isinstance(one, Text):
                found.append(one.shown)
            elif isinstance(one, (Items, Entries)):
                items = one.items if isinstance(one, Items) else list(one.items.values())
                found.extend(shown(item) for item in items)
    return "\n".join(found)


def _operator_writes(
    interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call, task: str, retries: int | None
) -> None:
    around = interp.around(task=task, retries=retries)
    autocommits = (
        bool(re.search(r"Snowflake|BigQuery|Hive|Athena|Spark|Databricks|Trino|Presto|ClickHouse", name))
        or constant(keywords.get("autocommit")) is True
    )
    around = replace(around, one_transaction=not autocommits, origin="task")
    before, interp.state.task = interp.state.task, task
    try:
        sql = keywords.get("sql") or keywords.get("hql") or keywords.get("query") or keywords.get("statement")
        if sql is not None:
            databases.run(
                interp,
                sql,
                node,
                hint=name,
                around=around,
                spark="Spark" in name or "Databricks" in name,
                given=keywords.get("parameters"),
            )
        _transfers(interp, name, keywords, node)
    finally:
        interp.state.task = before


def _transfers(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> None:

    def text(key: str) -> str:
        return (shown(keywords.get(key)) or "").lower()

    if name.endswith(("ToRedshiftOperator", "ToRedshiftTransfer")):
        method = text("method") or "append"
        mode = {"replace": Mode.OVERWRITE, "upsert": Mode.UPSERT}.get(method, Mode.APPEND)
        schema = text("schema")
        target = target_of(interp, keywords.get("table"), node)
        target = replace(target, name=f"{schema}.{target.name}" if schema else target.name)
        emit(
            interp,
            Write(target, mode, interp.place(node), via="operator", api=name, explicit_mode="method" in keywords),
        )
    elif re.search(
        r"(CopyFromExternalStageToSnowflake|S3ToSnowflake|GCSToSnowflake|AzureBlobStorageToSnowflake)", name
    ):
        emit(
            interp,
            Write(
                target_of(interp, keywords.get("table"), node),
                Mode.APPEND,
                interp.place(node),
                via="operator",
                api=name,
                explicit_mode=False,
            ),
        )
    elif "ToBigQuery" in name or (
        name.startswith("BigQuery") and ("destination_dataset_table" in keywords or "configuration" in keywords)
    ):
        _bigquery(interp, name, keywords, node)
    elif re.search(r"(S3To(Sql|MySql)|MySqlToHive|\w+ToPostgres|\w+ToMySql|GenericTransfer|S3ToHive|S3ToMySql)", name):
        preoperator = shown(keywords.get("preoperator") or keywords.get("mysql_preoperator")).lower()
        target = target_of(
            interp,
            keywords.get("destination_table")
            or keywords.get("table")
            or keywords.get("mysql_table")
            or keywords.get("hive_table"),
            node,
        )
        if any(word in preoperator for word in ("delete", "truncate", "drop")):
            emit(interp, Write(target, Mode.DELETE, interp.place(node), via="operator", api="preoperator"))
        emit(interp, Write(target, Mode.APPEND, interp.place(node), via="operator", api=name, explicit_mode=False))


def _bigquery(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> None:

    disposition = shown(keywords.get("write_disposition")).upper()
    where = keywords.get("destination_project_dataset_table") or keywords.get("destination_dataset_table")
    query: Value | None = None
    configuration = next((one for one in alternatives(keywords.get("configuration")) if isinstance(one, Entries)), None)
    if configuration is not None:
        inner = next(
            (
                one
                for key in ("query", "load")
                for one in alternatives(configuration.items.get(key))
                if isinstance(one, Entries)
            ),
            None,
        )
        if inner is None:
            return
        disposition = shown(inner.items.get("writeDisposition")).upper()
        query = inner.items.get("query")
        table = inner.items.get("destinationTable")
        if isinstance(table, Entries):
            where = table.items.get("tableId")
        if query is not None and where is None:
            databases.run(interp, query, node, hint="bigquery")
            return
    mode = {"WRITE_APPEND": Mode.APPEND, "WRITE_TRUNCATE": Mode.OVERWRITE}.get(
        disposition, Mode.CREATE if not disposition and "ToBigQuery" in name else Mode.APPEND
    )
    if where is None:
        return
    target = target_of(interp, where, node)
    if "$" in target.name and mode is Mode.OVERWRITE:
        mode = Mode.OVERWRITE_PARTITIONS
    write = Write(target, mode, interp.place(node), via="operator", api=name, explicit_mode=bool(disposition))
    sql = keywords.get("sql") or query
    for one in alternatives(sql):
        if isinstance(one, Text):
            write.query = databases.query_of(interp, one, node)
    emit(interp, write)
