"""Rows that Spark holds, cut so that no partition is too much for the driver that loads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.store.sql import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True)
class CheckpointSize:
    """How many bytes Spark holds of some rows, in all and in the largest partition."""

    total: int = 0
    largest: int = 0

    @classmethod
    def of(cls, session: SparkSession, rows: DataFrame) -> CheckpointSize:
        """Ask Spark about rows that were checkpointed; it does not know any other rows."""
        info = jvm.storage(session, rows)
        if info is None:
            return cls()
        parts = info.partitions()
        sizes = []
        if parts.isDefined():
            listed = parts.get()
            sizes = [int(listed.apply(i).memoryUsed() + listed.apply(i).diskUsed()) for i in range(listed.size())]
        total = int(info.memoryUsed()) + int(info.diskUsed())
        return cls(total, max(sizes, default=total))


def fitting(rows: DataFrame, size: CheckpointSize, largest: int = _LARGEST) -> DataFrame:
    """Spread rows over more partitions if one of them would be too much for the driver."""
    return rows.repartition(2 * size.total // largest + 1) if size.largest > largest else rows
