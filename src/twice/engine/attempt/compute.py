"""Calling a step and checking what it returned, before anything is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.keys import expand_keys
from twice.content.nullability import plain
from twice.engine.attempt.determinism import inspect_code, inspect_plan
from twice.engine.attempt.failures import message_of
from twice.engine.attempt.only_reading import only_reading
from twice.errors import Interrupted, SchemaRefused, StepFailed, TwiceError, did_you_mean
from twice.model.framework import FRAMEWORK_COLUMNS, LOADED_AT_COLUMN, WINDOW_COLUMN
from twice.model.patterns import Merge

if TYPE_CHECKING:
    from twice.engine.attempt.task import Task

BATCH = 50_000
# How often a wait for a source checks whether the task was abandoned.
_SLICE = 0.5


def batches(task: Task, bound: Mapping[str, DataFrame]) -> Iterator[DataFrame]:
    """Yield the step's result: one DataFrame, or for an extract of rows several, each of bounded size."""
    inspect_code(task.step)
    _require_as_of_columns(task, bound)
    result = _call(task, bound)
    if isinstance(result, DataFrame):
        yield _checked(task, result)
    elif task.step.kind == "extract" and isinstance(result, Iterable) and not isinstance(result, str | bytes | Mapping):
        for rows in _row_batches(task, result):
            yield _checked(task, rows)
    else:
        wanted = "a DataFrame or an iterable of mappings" if task.step.kind == "extract" else "a DataFrame"
        raise StepFailed(
            f"step {task.step.name} returned {type(result).__name__}; it must return {wanted}",
            unchanged="nothing was staged",
        )


def _require_as_of_columns(task: Task, bound: Mapping[str, DataFrame]) -> None:
    """Refuse to read versions as of a column that no other input has: nothing could be joined to them."""
    for name, read in task.step.reads.items():
        if read.mode != "as_of" or read.at is None:
            continue
        known = [column for other, rows in bound.items() if other != name for column in rows.columns]
        if read.at.lower() not in {column.lower() for column in known}:
            raise SchemaRefused(
                f"step {task.step.name}: no other input has the column {read.at}, as of which {name} "
                f"({read.table.name}) is read{did_you_mean(read.at, known)}",
                unchanged="nothing was staged",
                next_step="name the column that the versions are joined at, or read all versions with .latest()",
            )


def _call(task: Task, bound: Mapping[str, DataFrame]) -> Any:
    step, window = task.step, task.scope.window
    if step.query is not None:
        assert window is not None  # noqa: S101 - a run always has a window
        for name, rows in bound.items():
            rows.createOrReplaceTempView(name)
        markers = {"window_start": window.start, "window_end": window.end}
        query = expand_keys(step.query)
        try:
            with only_reading(step, task.session):
                return task.session.sql(query, args={n: F.lit(v) for n, v in markers.items() if f":{n}" in query})
        except PySparkException as error:
            raise _failed(task, error) from error
    assert step.function is not None  # noqa: S101 - a step has a function or a query
    offered: dict[str, object] = {"window": window, "spark": task.session, "pace": lambda: wait_for_turn(task)}
    if step.rate is not None and "pace" not in step.wants:
        wait_for_turn(task)  # a function that does not pace its calls counts as one call
    arguments = {**bound, **{name: offered[name] for name in step.wants}}
    try:
        with only_reading(step, task.session):
            return step.function(**arguments)
    except TwiceError:
        raise
    except Exception as error:
        raise _failed(task, error) from error


def wait_for_turn(task: Task) -> None:
    """Wait until the source may be called again, by any process."""
    assert task.step.rate is not None  # noqa: S101 - only offered to steps with a rate
    end = time.monotonic() + task.ledger.pacing.next_call(
        f"{task.step.pipeline}.{task.step.name}", task.step.rate.apart
    )
    while not task.abandoned():
        if (left := end - time.monotonic()) <= 0:
            return
        time.sleep(min(left, _SLICE))
    raise Interrupted(
        f"step {task.step.name} was stopped before its source was called", unchanged="nothing was published"
    )


def _failed(task: Task, error: BaseException) -> StepFailed:
    return StepFailed(
        f"step {task.step.name} raised {message_of(task, error)}",
        unchanged="nothing was staged; the last good version stays readable",
        next_step=f"correct the step, then run it again for {task.target.scope}",
    )


def _row_batches(task: Task, rows: Iterable[Mapping[str, object]]) -> Iterator[DataFrame]:
    table = task.step.writes
    if table.schema is None:
        raise StepFailed(
            f"extract {task.step.name} yields rows, but {table.name} declares no schema: "
            "an empty day would have no columns",
            next_step='add schema="order_id BIGINT, …" to the table',
        )
    schema = declared(table.schema)
    names = schema.names
    iterator = iter(rows)
    first = True
    while True:
        try:
            with only_reading(task.step, task.session):
                batch = list(islice(iterator, BATCH))
        except TwiceError:
            raise
        except Exception as error:
            raise _failed(task, error) from error
        if not batch and not first:
            return
        for row in batch:
            if not isinstance(row, Mapping):
                raise StepFailed(f"extract {task.step.name} yielded {type(row).__name__}; it must yield mappings")
            if unknown := sorted(set(row) - set(names)):
                raise StepFailed(
                    f"extract {task.step.name} yielded the column {', '.join(unknown)}, "
                    f"which {table.name} does not declare",
                    next_step=f"add it to the table's schema or leave it out; declared are {', '.join(names)}",
                )
        _refuse_naive(task, schema, batch)
        try:
            yield task.session.createDataFrame([tuple(row.get(name) for name in names) for row in batch], schema)
        except (TypeError, ValueError) as error:
            raise _failed(task, error) from error
        first = False


def _refuse_naive(task: Task, schema: T.StructType, batch: list[Mapping[str, object]]) -> None:
    """Refuse times without a zone for columns of instants: Spark would read them in this machine's zone."""
    for name in [field.name for field in schema.fields if isinstance(field.dataType, T.TimestampType)]:
        for row in batch:
            value = row.get(name)
            if isinstance(value, datetime) and value.tzinfo is None:
                raise StepFailed(
                    f"extract {task.step.name} yielded a {name} without a time zone: each machine would read it as a "
                    "different instant",
                    next_step=f"attach the zone that the source uses to {name}, such as "
                    'value.replace(tzinfo=ZoneInfo("Europe/Berlin")), or declare the column TIMESTAMP_NTZ',
                )


def declared(schema: str | Mapping[str, str]) -> T.StructType:
    """Read a declared schema."""
    assert isinstance(schema, str)  # noqa: S101 - a Table keeps its schema as text
    try:
        parsed = T.StructType.fromDDL(schema)
    except PySparkException as error:
        raise SchemaRefused(f"the declared schema cannot be read: {str(error).splitlines()[0]}: {schema}") from None
    assert isinstance(parsed, T.StructType)  # noqa: S101 - what the DDL of a table is
    return parsed


def _checked(task: Task, result: DataFrame) -> DataFrame:
    """Refuse a result that cannot be a version of the table; add the framework's columns."""
    table, step = task.step.writes, task.step
    names = result.columns
    folded = [name.lower() for name in names]  # Spark and Iceberg ignore case
    if repeated := dict.fromkeys(name for name in names if folded.count(name.lower()) > 1):
        raise SchemaRefused(f"step {step.name} returns two columns named {', '.join(repeated)}: rename or drop one")
    if taken := sorted(set(names) & FRAMEWORK_COLUMNS):
        raise SchemaRefused(f"step {step.name} returns the column {', '.join(taken)}, which belongs to twice")
    merge = table.write if isinstance(table.write, Merge) else None
    roles = {"version": merge.version, "tombstone": merge.tombstone, "created": merge.created} if merge else {}
    for column, role in [
        *((name, "partition") for name in table.partition_columns),
        *((name, "key") for name in table.key),
        *((name, role) for role, name in roles.items() if name),
        *((name, "personal") for name in table.personal),
    ]:
        if column not in names:
            raise SchemaRefused(
                f"step {step.name} returns no column {column}, which is a {role} column of {table.name}; "
                f"it returns {', '.join(names)}",
                unchanged="nothing was staged",
                next_step=f"add {column} to the step's result, or correct the table's contract",
            )
    if table.schema is not None:
        _match_declared(task, result)
    inspect_plan(step, result)
    if isinstance(table.write, Merge) or task.batch:
        result = result.withColumn(WINDOW_COLUMN, F.lit(task.mark))
    if table.loaded_at:
        result = result.withColumn(LOADED_AT_COLUMN, F.lit(task.ledger.clock.now()))
    return result


def _match_declared(task: Task, result: DataFrame) -> None:
    table = task.step.writes
    assert table.schema is not None  # noqa: S101 - the caller asked
    wanted = {field.name: field.dataType for field in declared(table.schema).fields}
    found = {field.name: field.dataType for field in result.schema.fields}
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is not declared" for name in found if name not in wanted]
    problems += [
        f"{name} is {found[name].simpleString()}, declared {kind.simpleString()}"
        for name, kind in wanted.items()
        if name in found and plain(found[name]) != plain(kind)
    ]
    if problems:
        raise SchemaRefused(
            f"step {task.step.name}: the result does not have the schema that {table.name} declares: "
            f"{'; '.join(problems)}",
            unchanged="nothing was staged",
            next_step="cast in the step, or change schema= of the table",
        )
