"""How many rows a DataFrame reads, as far as its tables say so of themselves: no Spark job is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def expected_rows(df: DataFrame) -> float | None:
    """Sum the rows that the leaves of the plan expect; None where one does not know."""
    leaves = df._jdf.queryExecution().optimizedPlan().collectLeaves()
    total = 0.0
    for index in range(leaves.size()):
        count = leaves.apply(index).stats().rowCount()
        if count.isEmpty():
            return None
        total += float(str(count.get()))
    return total
