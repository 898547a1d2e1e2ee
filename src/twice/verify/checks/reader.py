"""`reader`: whoever reads during a publish sees a whole version."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from twice import failpoints
from twice.content.rows import row_hashes
from twice.errors import PermanentError
from twice.verify.trial import NotRun, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from twice.content.digest import Digest
    from twice.model.steps import Step
    from twice.model.windows import Window
    from twice.verify.cases import Case, Picture
    from twice.verify.trial import Finding, Trial

# As long as a publish waits for the reader at each of its points.
_PATIENCE = 20.0
_TRIES = 3
_NUMBER = "_twice_number"


class Reader:
    """Read every written table in a loop while the unit is published with other rows.

    The unit is first run on half of its input rows, then on all of them. At each point of a publish the table is read
    once more, and the others in turn; a read must find what a table held before or what it holds afterwards, in this
    order. A step that removes or changes what readers see before twice publishes fails.
    """

    name = "reader"
    promise = "readers see whole versions, before and after a publish and nothing in between"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Publish the unit under the eyes of a reader."""
        case = trial.case(trial.variants("half", _half))
        _run(case, trial.before, "half of the input rows")
        _run(case, trial.unit, "half of the input rows")
        old = case.picture()
        case.read_from({**case.folders, **trial.inputs.folders})
        with _Loop(case) as loop, failpoints.watched(loop.at):
            for step in trial.steps:
                loop.focus = step.writes.name
                _run(case, trial.unit, "restated input", [step.name])
        new = case.picture()
        changed = [step for step in trial.steps if old[step.writes.name] != new[step.writes.name]]
        if not changed:
            raise NotRun("no table changes when half of the input rows come later, so there is no publish to watch")
        if not loop.count:
            raise NotRun(f"nothing was read while the unit was published{': ' if loop.errors else ''}{loop.error}")
        findings = [finding for step in changed for finding in self._judge(trial, step, loop, old, new)]
        return Seen(f"{loop.count} reads of {len(changed)} table{'s' * (len(changed) > 1)} during the publish: "
                    "each saw a whole version", findings)  # fmt: skip

    def _judge(self, trial: Trial, step: Step, loop: _Loop, old: Picture, new: Picture) -> list[Finding]:
        """Report reads that failed, that saw neither version, or that saw the old one after the new one."""
        table = step.writes.name
        before, after, seen = old[table], new[table], loop.seen.get(table, [])
        torn = [digest for digest in seen if digest not in (before, after)]
        whole = [digest for digest in seen if digest in (before, after)]
        what = ""
        if torn:
            what = (
                f"{len(torn)} of {len(seen)} reads during the publish saw neither version: {_rows(torn[0])}, "
                f"where it had {_rows(before)} before and {_rows(after)} afterwards"
            )
        elif after in whole and before in whole[whole.index(after) :]:
            what = "a reader saw the new version, and then the old one again"
        elif error := loop.errors.get(table):
            what = f"a read during the publish failed {_TRIES} times in a row: {error}"
        if not what:
            return []
        cause = "the step changes what readers see before twice publishes: it removes files or rows by itself"
        fix = "let the step only return rows; twice replaces the old ones in one commit"
        return [trial.finding(self, step, what, cause=cause, fix=fix)]


class _Loop:
    """A thread that reads the tables of a case, again and again: the one in focus each time, and another in turn."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.focus = next(iter(case.tables))
        self._thread = threading.Thread(target=self._read, name="twice-verify-reader", daemon=True)
        self._turn = threading.Condition()
        self._begun = self._ended = 0
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

    def __enter__(self) -> _Loop:  # noqa: PYI034 - typing.Self is younger than Python 3.10
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
            wanted = self._begun + 1
            self._turn.wait_for(lambda: self._ended >= wanted or not self._thread.is_alive(), _PATIENCE)

    def _read(self) -> None:
        others = itertools.cycle(self._case.tables)
        while not self._stopped:
            self._begun += 1
            for name in dict.fromkeys([self.focus, next(others)]):
                self._look(name)
            with self._turn:
                self._ended = self._begun
                self._turn.notify_all()

    def _look(self, name: str) -> None:
        """Read a table; what was replaced while it was read is read again, as readers of plain files must."""
        for _ in range(_TRIES):
            try:
                found = self._case.digest(name)
            except Exception as error:  # noqa: BLE001 - whatever a reader gets to see is what the check is about
                failed = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            else:
                self.seen.setdefault(name, []).append(found)
                return
        self.errors.setdefault(name, failed)


def _run(case: Case, window: Window, on: str, steps: Sequence[str] | None = None) -> None:
    try:
        case.run(window, steps=steps)
    except PermanentError as error:
        raise NotRun(f"a run on {on} is refused: {error.message}") from error


def _half(rows: DataFrame) -> DataFrame:
    """Leave out every second row, by a hash: the same ones each time."""
    order = Over.orderBy(*row_hashes(rows.schema))
    return rows.withColumn(_NUMBER, F.row_number().over(order)).where(F.col(_NUMBER) % 2 == 1).drop(_NUMBER)


def _rows(digest: Digest | None) -> str:
    return "no table" if digest is None else f"{digest.rows:,} row{'s' * (digest.rows != 1)}"
