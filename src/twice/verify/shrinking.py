"""A failing check on fewer input rows: delta debugging over the copies of the inputs."""

from __future__ import annotations

import itertools
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from twice.content.rows import column, row_hashes
from twice.engine.spark.session import fresh
from twice.errors import DefinitionError, Interrupted
from twice.verify.preparing import Inputs
from twice.verify.running import make

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from twice.model.steps import Step
    from twice.verify.trial import Check, Finding, Trial

GOAL = 20
_TRIES = 25
_SECONDS = 60.0
# A table is cut into at most this many parts; finer cuts cost more runs than they save rows.
_FINEST = 8
_ROW = "_twice_row"
# How many differing rows are traced to the inputs, and how many input rows are looked up for them.
_FOLLOWED = 3
_LOOKED_UP = 1_000

# The rows of a table that are kept, by their numbers.
Rows = tuple[range, ...]


@dataclass(frozen=True)
class Shrunk:
    """The smallest inputs on which the check was seen to fail."""

    trial: Trial
    finding: Finding
    rows: int
    of: int
    tries: int
    seconds: float

    @property
    def text(self) -> str:
        """Return which size was reached."""
        size = f"{self.rows:,} of {self.of:,} input rows"
        if not self.tries:
            return size
        made = f"{self.tries} smaller {'one' if self.tries == 1 else 'ones'} tried in {self.seconds:.0f} s"
        left = "" if self.rows <= GOAL else "; none with fewer rows was found to fail"
        return f"{size} ({made}{left})"


def shrink(
    trial: Trial, check: Check, finding: Finding, *, goal: int = GOAL, tries: int = _TRIES, seconds: float = _SECONDS
) -> Shrunk:
    """Run the check on fewer and fewer rows, as long as it finds the same; stop at the goal or at a bound."""
    work = _Shrinking(trial, check, finding, goal, tries, time.monotonic() + seconds)
    return work.shrink()


def same(one: Finding, other: Finding) -> bool:
    """Return whether two findings are the same fault: the same step, and values that differ in a common column."""
    if (one.check, one.step) != (other.check, other.step) or (one.evidence is None) != (other.evidence is None):
        return False
    if one.evidence is None or other.evidence is None:
        return re.sub(r"\d+", "", one.what) == re.sub(r"\d+", "", other.what)
    return not one.evidence.matches or bool(set(one.evidence.matches) & set(other.evidence.matches))


class _Shrinking:
    def __init__(self, trial: Trial, check: Check, finding: Finding, goal: int, most: int, until: float) -> None:
        self.trial, self.check, self.finding, self.goal = trial, check, finding, goal
        self.most, self.until, self.tries = most, until, 0
        self.session = fresh(trial.sandbox.spark, trial.pipeline.zone.key)
        self.steps = _upstream(trial.steps, finding.step)
        read = {each.table.name for step in self.steps for each in step.reads.values()}
        folders = {name: place for name, place in trial.inputs.folders.items() if name in read}
        self.best = self._on(folders, trial.inputs.rows)
        self.kept: dict[str, Rows] = {name: (range(1, trial.inputs.rows[name] + 1),) for name in folders}
        self.numbered: dict[str, str] = {}

    def shrink(self) -> Shrunk:
        started, of = time.monotonic(), self.size
        if of > self.goal:
            self.folder = Path(tempfile.mkdtemp(prefix="smaller-", dir=self.trial.sandbox.folder))
            self.numbered = {name: self._numbered(index, name) for index, name in enumerate(self.kept)}
            self._try(self._followed())
            self._cut_all()
        return Shrunk(self.best, self.finding, self.size, of, self.tries, time.monotonic() - started)

    @property
    def size(self) -> int:
        return sum(map(_count, self.kept.values()))

    def _numbered(self, index: int, name: str) -> str:
        """Write an input with numbers for its rows; the order is that of their content, so it is the same each time."""
        rows = self.session.read.parquet(self.trial.inputs.folders[name])
        try:
            order: Sequence[Column] = row_hashes(rows.schema)
        except DefinitionError:  # a type that has no hash
            order = [F.monotonically_increasing_id()]
        place = str(self.folder / f"{index}-numbered")
        rows.withColumn(_ROW, F.row_number().over(Window.orderBy(*order))).write.parquet(place)
        return place

    def _followed(self) -> dict[str, Rows]:
        """Keep only input rows that have the keys of rows that differ."""
        step = next(step for step in self.steps if step.name == self.finding.step)
        wanted = list(_keys(self.finding, step.writes.key))
        found = dict(self.kept)
        for name, place in self.numbered.items():
            rows = self.session.read.parquet(place)
            if condition := _any_of(wanted, rows.columns):
                numbers = rows.where(condition[0]).select(_ROW).orderBy(_ROW).limit(_LOOKED_UP).collect()
                found[name] = _ranges([row[0] for row in numbers])
        return found

    def _cut_all(self) -> None:
        """Cut the largest table first, and begin again as long as that helps."""
        before = -1
        while self.size > self.goal and self.size != before and self._may_try():
            before = self.size
            for name in sorted(self.kept, key=lambda name: -_count(self.kept[name])):
                if len(self.kept) > 1 and self._try({**self.kept, name: ()}):
                    continue
                self._cut(name)

    def _cut(self, name: str) -> None:
        """Halve a table; where neither half fails, leave smaller and smaller parts out."""
        parts = 2
        while self.size > self.goal and self._may_try():
            rows = self.kept[name]
            pieces = _split(rows, parts)
            candidates = pieces if parts == 2 else [_without(pieces, piece) for piece in pieces]
            if any(self._try({**self.kept, name: each}) for each in candidates):
                parts = max(parts - 1, 2)
            elif parts >= min(_count(rows), _FINEST):
                return
            else:
                parts = min(parts * 2, _count(rows))

    def _may_try(self) -> bool:
        return self.tries < self.most and time.monotonic() < self.until

    def _try(self, kept: dict[str, Rows]) -> bool:
        """Run the check on some of the rows; keep only those if it finds the same."""
        if not 0 < sum(map(_count, kept.values())) < self.size or not self._may_try():
            return False
        self.tries += 1
        folders: dict[str, str] = {}
        for index, (name, rows) in enumerate(kept.items()):
            if rows == self.kept[name]:
                folders[name] = self.best.inputs.folders[name]
                continue
            folders[name] = str(self.folder / str(self.tries) / f"{index}-as-is")
            self._some(name, rows).write.parquet(folders[name])
        smaller = self._on(folders, {name: _count(rows) for name, rows in kept.items()})
        found = self._made(smaller)
        if found is None:
            return False
        self.kept, self.best, self.finding = kept, smaller, found
        return True

    def _some(self, name: str, rows: Rows) -> DataFrame:
        chosen = (F.col(_ROW).between(each.start, each.stop - 1) for each in rows)
        condition = reduce(lambda one, other: one | other, chosen, F.lit(False))
        return self.session.read.parquet(self.numbered[name]).where(condition).drop(_ROW).coalesce(1)

    def _on(self, folders: Mapping[str, str], rows: Mapping[str, int]) -> Trial:
        inputs = Inputs(dict(folders), {name: rows[name] for name in folders})
        # Changed copies of an input that is the same are the same.
        known, before = self.trial.inputs.variants, self.trial.inputs.folders
        inputs.variants = {which: path for which, path in known.items() if folders[which[1]] == before[which[1]]}
        return replace(self.trial, steps=self.steps, inputs=inputs)

    def _made(self, smaller: Trial) -> Finding | None:
        """Return what the check finds there, if it is the same fault."""
        try:
            found = make(self.check, smaller)
        except Interrupted:
            raise
        except Exception:  # noqa: BLE001 - an error on fewer rows is not the fault that is shrunk
            return None
        return next((each for each in found.findings if same(self.finding, each)), None)


def _upstream(steps: Sequence[Step], name: str) -> tuple[Step, ...]:
    """Return a step with those that its inputs come from."""
    wanted = {step.writes.name for step in steps if step.name == name}
    found: list[Step] = []
    for step in reversed(steps):
        if step.writes.name in wanted:
            found.append(step)
            wanted |= {read.table.name for read in step.reads.values()}
    return tuple(reversed(found))


def _keys(finding: Finding, key: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the keys of a few rows that differ, as evidence shows them; hidden and shortened values are left out."""
    evidence = finding.evidence
    if evidence is None or not key:
        return
    texts = dict.fromkeys([*(cell.row for cell in evidence.cells), *evidence.samples])
    for text in list(texts)[:_FOLLOWED]:
        found = {}
        for name in key:
            match = re.search(rf"(?:^|, |: ){re.escape(name)}=(.*?)(?=, \w+=|$)", text)
            if match and not match[1].startswith("#") and not match[1].endswith("…"):
                found[name] = match[1]
        if found:
            yield found


def _any_of(keys: Sequence[Mapping[str, str]], columns: Sequence[str]) -> list[Column]:
    """Return the condition for rows with one of some keys, as far as a table has their columns; none without any."""
    conditions = []
    for key in keys:
        parts = [
            column(name).cast("string").eqNullSafe(F.lit(None if text == "null" else text))
            for name, text in key.items()
            if name in columns
        ]
        if parts:
            conditions.append(reduce(lambda one, other: one & other, parts))
    return [reduce(lambda one, other: one | other, conditions)] if conditions else []


def _count(rows: Rows) -> int:
    return sum(map(len, rows))


def _ranges(numbers: Sequence[int]) -> Rows:
    """Return ascending numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    (range(1, 4), range(7, 8))
    """
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)


def _split(rows: Rows, parts: int) -> list[Rows]:
    """Cut rows into parts of about the same size.

    >>> _split((range(1, 4), range(7, 9)), 2)
    [(range(1, 3),), (range(3, 4), range(7, 9))]
    """
    total, found = _count(rows), []
    bounds = [total * index // parts for index in range(parts + 1)]
    for low, high in itertools.pairwise(bounds):
        piece, seen = [], 0
        for each in rows:
            start, stop = max(low - seen, 0), min(high - seen, len(each))
            if start < stop:
                piece.append(each[start:stop])
            seen += len(each)
        found.append(tuple(piece))
    return found


def _without(pieces: Sequence[Rows], left_out: Rows) -> Rows:
    return tuple(each for piece in pieces if piece is not left_out for each in piece)
