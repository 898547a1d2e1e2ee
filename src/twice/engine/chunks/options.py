"""How a chunk of a backfill is worked on: what its partitions share, and the check that they may share it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from twice.errors import NotSeparable
from twice.model.scopes import Scope


class SpotCheck:
    """One comparison for all chunks of a step in this process; a chunk that arrives meanwhile waits for its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: NotSeparable | None = None
        # Whether rows were compared and found equal.
        self.passed = False

    def once(self, compare: Callable[[], bool]) -> None:
        """Compare, unless another chunk did so: its result, equal or different, holds for all chunks.

        A comparison that returns False had nothing to compare, and counts for no other chunk.
        """
        with self._lock:
            if (before := self._refused) is not None:
                raise NotSeparable(before.message, unchanged=before.unchanged, next_step=before.next_step)
            if self.passed:
                return
            try:
                self.passed = compare()
            except NotSeparable as error:
                self._refused = error
                raise


@dataclass(frozen=True)
class ChunkOptions:
    """The options of a task that computes several partitions together.

    `partial`: the partitions that pass their gates are published, the others reported. `check_alone`: a partition
    that is computed alone and compared before anything is published, by the first of the chunks that share a
    `spot_check`. `pool`: the FAIR pool of its Spark jobs.
    """

    partial: bool = False
    check_alone: Scope | None = None
    spot_check: SpotCheck = field(default_factory=SpotCheck)
    pool: str | None = None
