"""Readers of a case's tables: what they see while other runs publish, and whether it was a whole version."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from twice.content.rows import row_hashes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.content.digest import Digest
    from twice.verify.cases import Case

# How long a publish waits for the reader at each of its points.
_PATIENCE = 20.0
_TRIES = 3
# The pause between two reads that no publish waits for.
_PAUSE = 0.2
_NUMBER = "_twice_number"
CAUSE = "the step changes what readers see before twice publishes: it removes files or rows by itself"
FIX = "let the step only return rows; twice replaces the old ones in one commit"


class ReaderLoop:
    """A thread that reads the tables of a case in a loop: the one in focus, and the rest in turn."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.focus = next(iter(case.tables))
        self._thread = threading.Thread(target=self._read, name="twice-verify-reader", daemon=True)
        self._turn = threading.Condition()
        self._asked = self._answered = 0
        self._stopped = False
        self.seen: dict[str, list[Digest | None]] = {}
        self.errors: dict[str, str] = {}

    @property
    def count(self) -> int:
        """How many reads there were."""
        return sum(map(len, self.seen.values()))

    @property
    def error(self) -> str:
        """Why the first read failed that did; empty if none did."""
        return next(iter(self.errors.values()), "")

    def __enter__(self) -> ReaderLoop:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join(_PATIENCE)

    def at(self, point: str) -> None:  # noqa: ARG002 - what a watcher of fail points is given
        """Wait until the table in focus was read once more."""
        if threading.current_thread() is self._thread:
            return
        with self._turn:
            self._asked = wanted = self._asked + 1
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._answered >= wanted or not self._thread.is_alive(), _PATIENCE)

    def problem(self, table: str, before: Digest | None, after: Digest | None) -> str:
        """Return what is wrong with the reads of a table: one failed, saw neither version, or the old after the new."""
        seen = self.seen.get(table, [])
        torn = [digest for digest in seen if digest not in (before, after)]
        if torn:
            return f"{len(torn)} of {len(seen)} reads during the publish saw neither version: " + neither(
                torn[0], before, after
            )
        if after != before and after in seen and before in seen[seen.index(after) :]:
            return "a reader saw the new version, and then the old one again"
        if error := self.errors.get(table):
            return f"a read during the publish failed {_TRIES} times in a row: {error}"
        return ""

    def _read(self) -> None:
        others = itertools.cycle(self._case.tables)
        while not self._stopped:
            asked = self._asked
            self._look(self.focus)
            with self._turn:
                waited, self._answered = asked > self._answered, asked
                self._turn.notify_all()
            if not waited:
                self._look(next(others))
                with self._turn:
                    self._turn.wait_for(lambda: self._stopped or self._asked > self._answered, _PAUSE)

    def _look(self, name: str) -> None:
        """Read a table; what was replaced while it was read is read again, as readers of plain files must."""
        for _ in range(_TRIES):
            try:
                found = self._case.digest(name)
            except Exception as error:  # noqa: BLE001 - the check is about everything that a reader can see
                failed = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            else:
                self.seen.setdefault(name, []).append(found)
                return
        self.errors.setdefault(name, failed)


def neither(seen: Digest | None, before: Digest | None, after: Digest | None) -> str:
    """Return what a reader found where it should have found one of two versions."""
    return f"{_rows(seen)}, where it had {_rows(before)} before and {_rows(after)} afterwards"


def _rows(digest: Digest | None) -> str:
    return "no table" if digest is None else f"{digest.rows:,} row{'s' * (digest.rows != 1)}"


def half(rows: DataFrame) -> DataFrame:
    """Leave out every second row, by a hash: the same ones each time."""
    order = Over.orderBy(*row_hashes(rows.schema))
    return rows.withColumn(_NUMBER, F.row_number().over(order)).where(F.col(_NUMBER) % 2 == 1).drop(_NUMBER)
