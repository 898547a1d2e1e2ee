"""What a plan proves about keys: a result that is grouped by the key holds each key once.

Spark derives this itself, through projections, filters and semi joins, for its own optimiser. It
holds for every execution, so rows that were staged exactly as computed need not be counted again.
A cast, an outer join or a union ends the proof, and the staged keys are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def proves_unique(df: DataFrame, names: Sequence[str]) -> bool:
    """Tell whether no two rows of the result can agree in all of these columns, by its optimised plan."""
    plan = df._jdf.queryExecution().optimizedPlan()
    wanted = set(names)
    known = {_id(column): str(column.name()) for column in _each(plan.output()) if column.name() in wanted}
    return any(all(_id(column) in known for column in _each(key)) for key in _each(plan.distinctKeys()))


def _id(column: Any) -> str:
    """Name a column for good; an expression is no column of the result, and proves nothing about one."""
    return str(column.exprId()) if column.getClass().getSimpleName() == "AttributeReference" else ""


def _each(items: Any) -> Iterator[Any]:
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()
