"""The progress of a stream: what its batches brought, and what Spark reports about its speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twice.engine.notebooks import plural

if TYPE_CHECKING:
    from twice.streams.dedup.rows import Counts


# How far a stream is behind a source of which Spark does not report it.
UNKNOWN = "unknown"
# How sources report it: Kafka in offsets, Delta in files or bytes; files, Iceberg and `rate` do not.
_LAG = {"maxOffsetsBehindLatest": "offsets", "numFilesOutstanding": "files", "numBytesOutstanding": "bytes"}


@dataclass(repr=False)
class StreamResult:
    """How a stream ended, and what its batches brought since it started."""

    run: str
    stream: str
    table: str
    query: str = ""
    status: str = "stopped"
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    duplicates: int = 0
    late: int = 0

    def __repr__(self) -> str:
        brought = f"{plural(self.batches, 'batch', 'batches')}, {plural(self.rows_out, 'row')}"
        return f"StreamResult({self.run}, {self.stream}: {self.status}; {brought})"

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Progress:
    """How far a stream is, after a batch: its counts, and Spark's report on its speed and lag."""

    batch: int
    rows_in: int
    rows_out: int
    duplicates: int
    late: int
    rows_per_second: float
    behind: str = ""
    status: str = ""

    @property
    def text(self) -> str:
        """The batch in one line."""
        behind = {"": "", UNKNOWN: ", lag unknown"}.get(self.behind, f", behind by {self.behind}")
        return (
            f"batch {self.batch} {self.status}: {self.rows_in:,} in, {self.rows_out:,} out, "
            f"{self.duplicates:,} duplicate, {self.late:,} late; {self.rows_per_second:,.0f} rows/s{behind}"
        )

    def to_json(self) -> dict[str, object]:
        """Return the progress as JSON scalars."""
        return dict(self.__dict__)


Report = Callable[[Progress], None]


def progress_of(reported: dict[str, Any], number: int, status: str, counts: Counts | None) -> Progress:
    """Join what twice counted of a batch with what Spark reports about it."""
    operators = reported.get("stateOperators") or []
    late_rows = sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators)
    dropped = sum(int(each.get("customMetrics", {}).get("numDroppedDuplicateRows", 0)) for each in operators)
    rows_out = counts.rows_out if counts else 0
    duplicates = dropped if operators else (counts.duplicates if counts else 0)
    # What Spark's state let through is counted here, what it left out there.
    rows_in = (counts.rows_in if counts else 0) + dropped + late_rows
    return Progress(
        number,
        rows_in,
        rows_out,
        duplicates,
        late_rows,
        float(reported.get("processedRowsPerSecond") or 0.0),
        _behind(reported),
        status,
    )


def _behind(reported: dict[str, Any]) -> str:
    """Return how far the stream is behind its source; empty if it is not."""
    known = False
    for source in reported.get("sources") or []:
        for name, unit in _LAG.items():
            if (value := (source.get("metrics") or {}).get(name)) is not None:
                known = True
                if str(value) != "0":
                    return f"{value} {unit}"
    return "" if known else UNKNOWN


def state_rows(reported: dict[str, Any]) -> int:
    """Return how many keys Spark's state holds."""
    return sum(int(each.get("numRowsTotal", 0)) for each in reported.get("stateOperators") or [])
