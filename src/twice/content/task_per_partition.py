"""When a task per partition pays: partitions large enough for one, and enough of them for all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With fewer rows a task costs more than the shuffle that it saves; with more it takes too long, and too much memory.
FEW, _MANY = 10_000, 2_000_000
_PER_CORE = 2


def pays(session: SparkSession, partitions: int, rows: float | None) -> bool:
    """Return whether so many rows should be worked on partition by partition."""
    if rows is None or partitions < _PER_CORE * session.sparkContext.defaultParallelism:
        return False
    return FEW <= rows / partitions <= _MANY
