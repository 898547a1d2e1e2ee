"""Whole partitions per task: what is computed within a partition then needs no shuffle, nor does writing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING = "spark.sql.iceberg.planning.preserve-data-grouping"


def group(session: SparkSession, *, on: bool) -> None:
    """Let the session's reads from now on hand whole partitions to tasks, and say so to Spark; or not."""
    for name in ("spark.sql.sources.v2.bucketing.enabled", _SETTING):
        session.conf.set(name, str(on).lower())


def is_grouped(session: SparkSession, rows: DataFrame, columns: Sequence[str]) -> bool:
    """Return whether each task that makes these rows makes all that have the same values in some of these columns."""
    if session.conf.get(_SETTING, "false") != "true":
        return False
    plan = rows._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.initialPlan()
    found = plan.outputPartitioning()
    if found.getClass().getSimpleName() != "KeyGroupedPartitioning":
        return False
    # A finer grouping, such as that of hours of which days are made, would write many files per partition.
    expressions = found.expressions()
    each = [expressions.apply(place) for place in range(expressions.size())]
    return all(one.getClass().getSimpleName() == "AttributeReference" and one.name() in columns for one in each)
