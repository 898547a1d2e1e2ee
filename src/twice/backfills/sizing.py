"""How many partitions a job computes: enough to be worth its start, not more than it can hold at once.

Starting a job, staging and publishing cost about a second or two however little there is to do; on the other
side a job over very many partitions keeps many files open and loses much when it fails, and one job at a time
leaves cores idle while it commits. In trials two jobs at once were best: 183 narrow days each, or 45 days of
33,000 rows each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

MOST = 200
ROWS = 2_000_000
# Without an estimate of the rows, the first chunk is this small, to measure one.
PROBE = 7
# A chunk that ends sooner is mostly overhead; one that takes longer loses much work when it fails.
SHORT, LONG = 5.0, 120.0

Item = TypeVar("Item")


def fitting(rows_each: float | None) -> int:
    """Return how many partitions of this many rows make a good job.

    >>> fitting(1_000), fitting(33_000), fitting(5_000_000), fitting(None)
    (200, 60, 1, 7)
    """
    if rows_each is None:
        return PROBE
    return max(1, min(MOST, int(ROWS / max(rows_each, 1.0))))


def adapted(size: int, seconds: float) -> int:
    """Return a better size, from how long a chunk of this size took.

    >>> adapted(7, 1.5), adapted(30, 20.0), adapted(30, 300.0)
    (28, 30, 15)
    """
    if seconds < SHORT:
        return min(MOST, size * 4)
    if seconds > LONG:
        return max(1, size // 2)
    return size


def cut(items: Sequence[Item], size: int, parallel: int = 1) -> list[list[Item]]:
    """Cut neighbours into pieces of about the same size, as many as give all workers the same amount of work.

    >>> [len(piece) for piece in cut(range(90), 18, 2)]
    [15, 15, 15, 15, 15, 15]
    >>> [len(piece) for piece in cut(range(3), 7, 2)]
    [3]
    """
    if not items:
        return []
    count = -(-len(items) // size)
    if count > 1:
        count = min(len(items), -(-count // parallel) * parallel)
    ends = [len(items) * number // count for number in range(count + 1)]
    return [list(items[start:end]) for start, end in pairwise(ends)]
