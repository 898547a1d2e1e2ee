"""Promises as assertions: a step or a pipeline on a few rows, in a sandbox, checked as `twice verify` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from twice.errors import UsageError, did_you_mean
from twice.testing.sessions import project_config, running_or_started
from twice.testing.trials import Inputs, Testable, config_for, failure, pipeline_of, trial_of
from twice.verify.checks import chosen
from twice.verify.evidence import compare
from twice.verify.running import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import Config
    from twice.model.grains import Grain
    from twice.model.windows import Window
    from twice.verify.trial import Outcome


def assert_idempotent(
    step_or_pipeline: Testable,
    window: str | Window,
    inputs: Inputs | None = None,
    *,
    steps: Sequence[str] | None = None,
    stores: Mapping[str, str] | None = None,
    grain: Grain | None = None,
    time_zone: str = "UTC",
    config: Config | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Assert that a unit that is run twice has the same rows, and no new version.

    `inputs` are rows by table or by the name under which a step reads them: DataFrames, or literals for a table that
    declares its schema. `stores={"serving": "sqlite"}` gives the type of a store that no twice.toml names; the default
    is Iceberg. A single step takes `grain=` and `time_zone=`, as it does not know its pipeline. What a run refuses is
    raised as in a run.
    """
    __tracebackhide__ = True
    outcome = _outcome("run-twice", step_or_pipeline, window, inputs, steps, stores, grain, time_zone, config, spark)
    if outcome.findings:
        raise AssertionError(failure(outcome))


def assert_deterministic(
    step_or_pipeline: Testable,
    window: str | Window,
    inputs: Inputs | None = None,
    *,
    steps: Sequence[str] | None = None,
    stores: Mapping[str, str] | None = None,
    grain: Grain | None = None,
    time_zone: str = "UTC",
    config: Config | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Assert that a unit's rows depend on its inputs and its window alone; arguments as of `assert_idempotent`."""
    __tracebackhide__ = True
    outcome = _outcome(
        "deterministic", step_or_pipeline, window, inputs, steps, stores, grain, time_zone, config, spark
    )
    if outcome.findings:
        raise AssertionError(failure(outcome))


def assert_separable(
    step_or_pipeline: Testable,
    window: str | Window,
    inputs: Inputs | None = None,
    *,
    steps: Sequence[str] | None = None,
    stores: Mapping[str, str] | None = None,
    grain: Grain | None = None,
    time_zone: str = "UTC",
    config: Config | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Assert that one job over the unit before and the unit gives the rows that one job each gives.

    Arguments as of `assert_idempotent`; give rows of both units.
    """
    __tracebackhide__ = True
    outcome = _outcome("separable", step_or_pipeline, window, inputs, steps, stores, grain, time_zone, config, spark)
    if outcome.findings:
        raise AssertionError(failure(outcome))


def assert_same_table(
    left: DataFrame,
    right: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    names: tuple[str, str] = ("on the left", "on the right"),
) -> None:
    """Assert that two tables hold the same rows, in any order of rows and columns.

    With a key, a row that differs is shown cell by cell; without one, rows are the same only if all their values are.
    """
    __tracebackhide__ = True
    columns = [key] if isinstance(key, str) else list(key or ())
    for name in columns:
        for side, frame in zip(names, (left, right), strict=True):
            if name not in frame.columns:
                raise UsageError(f"the key column {name} is missing {side}{did_you_mean(name, frame.columns)}")
    types = [
        f"{name} is {left.schema[name].dataType.simpleString()} {names[0]}, "
        f"{right.schema[name].dataType.simpleString()} {names[1]}"
        for name in left.columns
        if name in right.columns and _kind(left, name) != _kind(right, name)
    ]
    if types:
        raise AssertionError("\n  ".join(["the tables have other types", *types]))
    if not set(left.columns) & set(right.columns):
        raise AssertionError(
            f"the tables have no column in common: {', '.join(left.columns)} {names[0]}, "
            f"{', '.join(right.columns)} {names[1]}"
        )
    found = compare(left, right, key=columns, names=names)
    if found.only_left or found.only_right or found.changed or found.columns:
        first, *rest = found.lines()
        raise AssertionError("\n  ".join([f"the tables differ: {first}", *rest]))


def _kind(frame: DataFrame, name: str) -> str:
    return frame.schema[name].dataType.simpleString()


def _outcome(
    check: str,
    thing: Testable,
    window: str | Window,
    inputs: Inputs | None,
    steps: Sequence[str] | None,
    stores: Mapping[str, str] | None,
    grain: Grain | None,
    time_zone: str,
    config: Config | None,
    spark: SparkSession | None,
) -> Outcome:
    """Run one check; one that cannot run is an error, so that it never counts as passed."""
    pipeline = pipeline_of(thing, grain, time_zone)
    configured = config_for(pipeline, stores, config or project_config())
    session = spark or _session_of(inputs or {}) or running_or_started(configured)
    with trial_of(pipeline, window, inputs, session, configured, steps) as trial:
        _ = trial.expected  # a pipeline that cannot run at all raises here, before the check
        outcome = make(chosen([check], quick=False)[0], trial)
    if outcome.status == "not run":
        raise UsageError(f"{check} cannot be checked: {outcome.summary}", unchanged="nothing was asserted")
    return outcome


def _session_of(inputs: Mapping[str, Any]) -> SparkSession | None:
    return next((rows.sparkSession for rows in inputs.values() if isinstance(rows, DataFrame)), None)
