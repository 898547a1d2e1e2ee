"""One chunk that is checked speaks for the others that are at work at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from twice.errors import NotSeparable


class Vouch:
    """One comparison for all chunks of a step in this process; a chunk that comes meanwhile waits for its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: NotSeparable | None = None
        # Whether rows were compared and found right.
        self.given = False

    def once(self, compare: Callable[[], bool]) -> None:
        """Compare, unless another chunk did so: found right it holds for all, found wrong it holds for all, too.

        A comparison that returns False had nothing to compare, and counts for no other chunk.
        """
        with self._lock:
            if (before := self._refused) is not None:
                raise NotSeparable(before.message, unchanged=before.unchanged, next_step=before.next_step)
            if self.given:
                return
            try:
                self.given = compare()
            except NotSeparable as error:
                self._refused = error
                raise
