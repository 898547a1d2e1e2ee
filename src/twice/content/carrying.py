"""What a plan proves about rows that are made of other rows: one of each, with some of their columns untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twice.content.java import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Each returns as many rows as it gets.
_KEEPING = frozenset({"Project", "SubqueryAlias"})
_BETWEEN = "\x1f"


def carried(made: DataFrame, of: DataFrame) -> frozenset[str] | None:
    """Name the columns that rows carry over from the rows they are made of; None unless each makes exactly one."""
    start, plan = (query_of(df).analyzed() for df in (of, made))
    output = _columns(plan)
    while not plan.equals(start):
        if plan.getClass().getSimpleName() not in _KEEPING:
            return None
        plan = plan.child()
    return frozenset(each.rpartition("#")[0] for each in output & _columns(start))


def _columns(plan: Any) -> frozenset[str]:
    """Return a plan's columns, each as Spark writes it: its name, and the number that no other column has."""
    return frozenset(str(plan.output().mkString(_BETWEEN)).split(_BETWEEN))
