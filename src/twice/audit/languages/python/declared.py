"""Functions that stand for tables: `@dlt.table` of Databricks' pipelines, and dbt's models in Python."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import frames, writers
from twice.audit.languages.python.pieces import text_value
from twice.audit.languages.python.values import Frame, Function, Instance, Items, Value, alternatives, frame_of, plain
from twice.audit.model import DbtModel, Merge, Mode, Target, When, Write

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_TABLE = re.compile(r"(dlt|dp)\.(table|create_table|materialized_view|streaming_table)\b")


def publish(interp: Interpreter, function: Function, result: Value) -> None:
    """Write what a function returns, if it stands for a table."""
    frame = frame_of(result)
    node = function.node
    if frame is None or interp.quiet or not isinstance(node, ast.FunctionDef):
        return
    decorator = next((one for one in node.decorator_list if _TABLE.match(interp.source(one))), None)
    if decorator is not None:
        _pipeline_table(interp, node, decorator, frame)
    elif is_dbt_model(node):
        _dbt_table(interp, node, frame)


def is_dbt_model(node: ast.FunctionDef) -> bool:
    """Return whether a function is a model of dbt: `def model(dbt, session)`."""
    return node.name == "model" and [one.arg for one in node.args.args][:1] == ["dbt"] and len(node.args.args) == 2


def _pipeline_table(interp: Interpreter, node: ast.FunctionDef, decorator: ast.expr, frame: Frame) -> None:
    """A batch is computed again in every update; what a stream brings is added once."""
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    name = next((plain(interp.eval(one.value)) for one in given if one.arg == "name"), None) or node.name
    streams = any(one.streaming for one in frame.query.walk())
    write = Write(
        Target(name.lower()),
        Mode.APPEND if streams else Mode.OVERWRITE,
        interp.place(node),
        query=frame.query,
        via="dataframe",
        api="dlt.table",
    )
    write.stream = write.checkpointed = streams
    writers.emit(interp, write)


# dbt ------------------------------------------------------------------------------------------------------------


def dbt_object(interp: Interpreter) -> Instance:
    """Return what a model is given as `dbt`."""
    name = PurePosixPath(interp.job.path).stem.lower()
    return Instance(kind="dbt", name="dbt", attributes={"this": text_value(name)})


def dbt_method(
    interp: Interpreter, method: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """dbt.config(…), dbt.ref("orders"), dbt.source("shop", "orders")."""
    if method == "config" and keywords:
        interp.job.dbt = DbtModel(
            materialized=(plain(keywords.get("materialized")) or "table").lower(),
            strategy=(plain(keywords.get("incremental_strategy")) or "").lower(),
            unique_key=_names(keywords.get("unique_key")),
            partition_by=_names(keywords.get("partition_by")),
            place=interp.place(node),
            unique_key_text=", ".join(_names(keywords.get("unique_key"))),
        )
        return Value()
    if method in {"ref", "source"} and arguments:
        return frames.table_frame(interp, plain(arguments[-1]) or "", interp.place(node))
    return None


def _names(value: Value | None) -> tuple[str, ...]:
    items = [item for one in alternatives(value) for item in (one.items if isinstance(one, Items) else [one])]
    return tuple(text.lower() for text in map(plain, items) if text)


def _dbt_table(interp: Interpreter, node: ast.FunctionDef, frame: Frame) -> None:
    model = interp.job.dbt or DbtModel(materialized="table", place=interp.place(node))
    interp.job.dbt = model
    name = PurePosixPath(interp.job.path).stem.lower()
    write = Write(Target(name), Mode.OVERWRITE, model.place, query=frame.query, via="dbt", origin="model")
    write.api, write.key, write.transaction = model.materialized, model.unique_key, 1
    write.partition = tuple((column, None) for column in model.partition_by)
    if model.materialized == "incremental":
        write.incremental = True
        write.mode = _mode(model)
    if write.mode is Mode.MERGE:
        write.merge = _merge(model)
    interp.builder.add_write(write)


def _mode(model: DbtModel) -> Mode:
    if model.strategy == "insert_overwrite":
        return Mode.OVERWRITE_PARTITIONS
    return Mode.MERGE if model.unique_key and model.strategy != "append" else Mode.APPEND


def _merge(model: DbtModel) -> Merge:
    pairs = tuple(
        Expr("op", "=", (Expr("column", key, table="this"), Expr("column", key, table="new")), model.place)
        for key in model.unique_key
    )
    on = pairs[0] if len(pairs) == 1 else Expr("op", "and", pairs, model.place)
    whens = (
        When(matched=True, action="update", all_columns=True, place=model.place),
        When(matched=False, action="insert", all_columns=True, place=model.place),
    )
    return Merge(on, whens, "this", "new")
