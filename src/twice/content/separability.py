"""Whether a result over many partitions is the union of the results over each, derived from its plan.

Every windowed input has a column that names the partition of its rows. The column is followed by its
number through the plan: a node keeps partitions apart if it looks at one row at a time, or brings together
only rows that agree in that column. Only known nodes are accepted; with any other node in the plan, the answer
is no, with the reason in words. A subplan without a windowed input is the same for every partition.

Nor may the order of rows decide, which a larger job changes: `first`, `collect_set`, `mode`, approximate
percentiles and the like are refused, and `dropDuplicates` by some of the columns: it does not define which row is
kept. A step that does define it stays separable although rows may tie: windows with an order (`row_number` by day
and key, the newest first) and `max_by`. Where rows tie there, a daily run chooses one of them by chance too; and one
partition of the first chunk is computed alone and compared, which detects a step whose result depends on such
chance.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from twice.content.plans import analysed
from twice.content.rows import column as column_of
from twice.content.tracing import Mixed, Origin, Reader
from twice.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Marks", "Origin"]


class Marks:
    """Marks inputs so that they are found again in the plan of what is made from them."""

    def __init__(self) -> None:
        self._key = uuid.uuid4().hex
        self._origins: dict[str, tuple[str, Origin | None]] = {}

    def mark(self, name: str, df: DataFrame, origin: Origin | None) -> DataFrame:
        """Return the rows of an input under a mark; an input without an origin is not cut to the window."""
        mark = f"twice-input-{self._key}-{len(self._origins)}"
        self._origins[mark] = (name, origin)
        if all(map(str.isidentifier, df.columns)):  # one text costs less than calls; Spark fills in ${…} even in quotes
            return df.selectExpr(*(f"{quote(each)} AS {quote(each)}" for each in df.columns)).alias(mark)
        return df.select(*(column_of(each).alias(each) for each in df.columns)).alias(mark)

    def mixes(self, result: DataFrame, column: str, zone: str) -> str:
        """Return how a result may mix partitions; an empty text: it keeps them apart, by its column of that name."""
        try:
            reader = Reader(self._origins, column, zone)
            found = reader.trace(analysed(result))
        except Mixed as mixed:
            return str(mixed)
        except RecursionError:
            return "has a plan that is too deep to be read"
        if found.fixed:
            return "reads no input by its window"
        if not any(each.name.lower() == column.lower() and each.id in found.places for each in found.output):
            return f"gives {column} another value than the partition of the rows that it is made from"
        return ""
