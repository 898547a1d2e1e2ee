"""Sets of time as lists of windows in order, none of which touches the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from twice.model.windows import Window


def union(windows: Iterable[Window]) -> list[Window]:
    """Join windows that touch or overlap.

    >>> from twice import Day
    >>> from twice.model.grains import zone_of
    >>> days = [Day.unit(f"2026-04-{day:02}", zone_of("UTC")) for day in (3, 1, 2, 7)]
    >>> [str(window) for window in union(days)]
    ['2026-04-01/2026-04-04', '2026-04-07/2026-04-08']
    """
    found: list[Window] = []
    for window in sorted(windows):
        if found and window.start <= found[-1].end:
            found[-1] = Window(found[-1].start, max(found[-1].end, window.end))
        else:
            found.append(window)
    return found


def touches(windows: Sequence[Window], other: Window) -> bool:
    """Return whether a window overlaps one of a union."""
    index = bisect_left(windows, other.end, key=lambda window: window.start)
    return index > 0 and windows[index - 1].end > other.start


def neighbours(windows: Sequence[Window]) -> list[list[Window]]:
    """Group windows, which are in order, by whether each begins where the one before ends."""
    found: list[list[Window]] = []
    for window in windows:
        if found and found[-1][-1].end == window.start:
            found[-1].append(window)
        else:
            found.append([window])
    return found
