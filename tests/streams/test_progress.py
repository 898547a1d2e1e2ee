"""What a batch's line says, from Spark's own report."""

from __future__ import annotations

from typing import Any

import pytest

from twice.streams.dedup.rows import Counts
from twice.streams.progress import progress_of


def report(**metrics: str) -> dict[str, Any]:
    """What Spark reports of a batch of one source."""
    return {"processedRowsPerSecond": 5.0, "sources": [{"metrics": metrics}]}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({}, "5 rows/s, lag unknown"),
        ({"maxOffsetsBehindLatest": "0"}, "5 rows/s"),
        ({"maxOffsetsBehindLatest": "7", "avgOffsetsBehindLatest": "3.5"}, "5 rows/s, behind by 7 offsets"),
        ({"numFilesOutstanding": "0", "numBytesOutstanding": "90"}, "5 rows/s, behind by 90 bytes"),
    ],
)
def test_lag_is_what_the_source_reports_and_unknown_where_it_reports_none(metrics, said):
    line = progress_of(report(**metrics), 3, "published", Counts(2, 1, 1)).text
    assert line == f"batch 3 published: 2 in, 1 out, 1 duplicate, 0 late; {said}"


def test_events_that_state_left_out_came_in_too():
    operator = {"numRowsDroppedByWatermark": 2, "customMetrics": {"numDroppedDuplicateRows": 3}}
    progress = progress_of({**report(), "stateOperators": [operator]}, 0, "published", Counts(4, 1, 0))
    assert (progress.rows_in, progress.rows_out, progress.duplicates, progress.late) == (9, 1, 3, 2)
