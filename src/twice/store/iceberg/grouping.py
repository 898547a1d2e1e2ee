"""Whole partitions per task: what is computed within a partition then needs no shuffle, nor does writing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twice.content.java import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING = "spark.sql.iceberg.planning.preserve-data-grouping"


@contextmanager
def grouped(session: SparkSession) -> Iterator[None]:
    """Let the queries that are planned in the block hand whole partitions to tasks, and report that to Spark."""
    settings = ("spark.sql.sources.v2.bucketing.enabled", _SETTING)
    before = {name: session.conf.get(name, None) for name in settings}
    for name in settings:
        session.conf.set(name, "true")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def is_grouped(session: SparkSession, rows: DataFrame, columns: Sequence[str]) -> bool:
    """Return whether each task that makes these rows makes all that have the same values in some of these columns."""
    if session.conf.get(_SETTING, "false") != "true":
        return False
    plan = query_of(rows).executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.initialPlan()
    found = plan.outputPartitioning()
    if found.getClass().getSimpleName() != "KeyGroupedPartitioning":
        return False
    # A finer grouping, such as by hour for a table of days, would write many files per partition.
    expressions = found.expressions()
    each = [expressions.apply(place) for place in range(expressions.size())]
    return all(one.getClass().getSimpleName() == "AttributeReference" and one.name() in columns for one in each)
