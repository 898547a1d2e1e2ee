"""What every check is given: the pipeline, copies of its inputs, cases, and a clean run to compare with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from twice.engine.spark.session import fresh
from twice.model.patterns import InsertOnly, Merge
from twice.verify.evidence import Evidence, compare
from twice.verify.suspects import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.errors import TwiceError
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Read
    from twice.model.windows import Window
    from twice.verify.cases import Case, Picture
    from twice.verify.preparing import Inputs
    from twice.verify.sandbox import Sandbox

Status = Literal["passed", "failed", "not run"]
Change = Callable[["DataFrame"], "DataFrame"]


class NotRun(Exception):
    """The check cannot run here; the reason is its message."""


@dataclass(frozen=True)
class Finding:
    """A promise that does not hold, with the evidence and the fix."""

    check: str
    step: str
    table: str
    promise: str
    what: str
    cause: str
    fix: str
    repeat: str
    evidence: Evidence | None = None
    # The inputs with which it fails, by table: shrunk to a few rows where that was possible.
    inputs: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the finding as a reader wants it: what, why, what now."""
        yield f"{self.step} ({self.table}): {self.what}"
        if self.evidence is not None:
            yield from (f"  {line}" for line in self.evidence.lines())
        yield f"  likely cause: {self.cause}"
        yield f"  fix: {self.fix}"
        yield f"  repeat: {self.repeat}"

    def to_json(self) -> dict[str, object]:
        """Return the finding as JSON scalars."""
        return {
            "check": self.check,
            "step": self.step,
            "table": self.table,
            "promise": self.promise,
            "what": self.what,
            "cause": self.cause,
            "fix": self.fix,
            "repeat": self.repeat,
            "evidence": self.evidence.to_json() if self.evidence is not None else None,
            "inputs": dict(self.inputs),
        }


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check: passed with a summary of what was seen, failed with findings, or not run and why."""

    check: str
    promise: str
    status: Status
    summary: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return the outcome as JSON scalars."""
        return {
            "check": self.check,
            "promise": self.promise,
            "status": self.status,
            "summary": self.summary,
            "seconds": round(self.seconds, 2),
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True)
class Seen:
    """What a check saw: a summary for the report, and what is wrong."""

    summary: str
    findings: Sequence[Finding] = ()


class Check(Protocol):
    """One check; each is a class in a module of its own, and the class's docstring is its documentation."""

    name: str
    promise: str
    quick: bool

    def __call__(self, trial: Trial) -> Seen:
        """Run the check; raise `NotRun` where it cannot run."""


@dataclass
class Trial:
    """One verification: a pipeline, a unit of its grain, the unit before it, and copies of what both read."""

    sandbox: Sandbox
    pipeline: Pipeline
    steps: tuple[Step, ...]
    unit: Window
    before: Window
    inputs: Inputs
    seed: int = 1
    # The words of the command after `twice verify`, without --check.
    command: tuple[str, ...] = ()
    # How another process imports the pipeline; empty: it cannot.
    place: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names of the chosen steps."""
        return frozenset(step.name for step in self.steps)

    def case(self, changed: Mapping[str, str] | None = None, *, steps: Iterable[Step] | None = None) -> Case:
        """Create a case on empty tables; `changed` are inputs that differ from the copied ones."""
        names = self.names if steps is None else frozenset(step.name for step in steps)
        return self.sandbox.case(self.pipeline, {**self.inputs.folders, **(changed or {})}, names)

    def untouched_by(self, touches: Callable[[Step], bool]) -> tuple[Step, ...]:
        """Return the steps that can be compared, without those that a condition holds for and what reads of them."""
        left_out: set[str] = set()
        for step in self.steps:
            if touches(step) or any(read.table.name in left_out for read in step.reads.values()):
                left_out.add(step.writes.name)
        return tuple(step for step in self.compared if step.writes.name not in left_out)

    @property
    def windowed(self) -> list[str]:
        """The copied inputs that steps see a window of; a check that changes a unit's input changes these."""
        cut = {read.table.name for step in self.steps for read in step.reads.values() if read.mode == "window"}
        found = [name for name in self.inputs.folders if name in cut]
        if not found:
            raise NotRun("no input is cut to the window")
        return found

    def reads_made(self, step: Step, how: Callable[[Read], bool]) -> bool:
        """Return whether a step reads another step's table in a certain way."""
        made = {each.writes.id for each in self.steps if each is not step}
        return any(read.table.id in made and how(read) for read in step.reads.values())

    @property
    def replacing(self) -> tuple[Step, ...]:
        """The steps whose tables hold what the last run of each unit made, and nothing of runs before it.

        A merged or inserted row stays when its input is gone, and so does what is computed from it.
        """
        return self.untouched_by(lambda step: isinstance(step.writes.write, Merge | InsertOnly))

    @cached_property
    def clean(self) -> Case:
        """One clean run of the unit before and of the unit."""
        return self._final(self.before, self.unit)

    @cached_property
    def alone(self) -> Case:
        """One clean run of the unit, without the unit before it."""
        return self._final(self.unit)

    def take_alone(self) -> Case:
        """Return a case in which only the unit was run, and which no other check uses any more."""
        case = self.alone
        del self.alone
        case.final = None
        return case

    @property
    def looks_back(self) -> bool:
        """Whether a step builds on its own past, or reads more of another step's table than the unit."""
        return any(
            step.depends_on_past or self.reads_made(step, lambda read: read.mode != "window" or bool(read.lookback))
            for step in self.steps
        )

    @property
    def expected(self) -> Picture:
        """What the tables hold after a clean run."""
        assert self.clean.final is not None  # noqa: S101 - it was made so
        return self.clean.final

    def _final(self, *windows: Window) -> Case:
        case = self.case()
        case.run(*windows)
        case.final = case.picture()
        return case

    def run_on_clean(self, window: Window) -> tuple[Case, bool]:
        """Run a window once more after the clean run; return the case, and whether it still holds the same.

        If it does not, the next check does a clean run of its own.
        """
        case, versions, same = self.clean, self.clean.versions(), False
        try:
            case.run(window)
            same = case.versions() == versions and case.picture() == case.final
        finally:
            if not same:
                del self.clean
        return case, same

    @property
    def compared(self) -> tuple[Step, ...]:
        """The steps whose tables can be compared: neither they nor what they read is declared as not repeatable."""
        return tuple(step for step in self.steps if step.writes.name not in self._free)

    @cached_property
    def _free(self) -> frozenset[str]:
        free: set[str] = set()
        for step in self.steps:
            if step.nondeterministic or any(read.table.name in free for read in step.reads.values()):
                free.add(step.writes.name)
        return frozenset(free)

    def variant(self, name: str, table: str, change: Change) -> str:
        """Write a changed copy of an input, once; return its folder."""
        if (name, table) not in self.inputs.variants:
            source = Path(self.inputs.folders[table])
            folder = str(source.with_name(f"{source.name.removesuffix('-as-is')}-{name}"))
            session = fresh(self.sandbox.spark, self.pipeline.zone.key)
            change(session.read.parquet(str(source))).write.parquet(folder)
            self.inputs.variants[name, table] = folder
        return self.inputs.variants[name, table]

    def variants(self, name: str, change: Change, tables: Sequence[str] | None = None) -> dict[str, str]:
        """Write changed copies of some inputs, or of all."""
        chosen = self.inputs.folders if tables is None else tables
        return {table: self.variant(name, table, change) for table in chosen}

    def step_of(self, error: TwiceError) -> Step:
        """Return the step that an error is about."""
        about = (step for step in self.steps if re.search(rf"\bstep {re.escape(step.name)}(?![\w-])", error.message))
        return next(about, self.steps[-1])

    def run_each(self, case: Case, *windows: Window) -> dict[str, TwiceError]:
        """Run step by step, and continue with steps that do not depend on a refused one; return what was refused."""
        refused: dict[str, TwiceError] = {}
        for window in windows:
            for step in self.steps:
                if step.name in refused or any(step.name == each.name for each in self.behind(refused)):
                    continue
                if (error := case.try_run(window, steps=[step.name]).error) is not None:
                    refused[step.name] = error
        return refused

    def behind(self, names: Container[str]) -> tuple[Step, ...]:
        """Return the steps that read, directly or not, what some steps write; without these."""
        tables = {step.writes.name for step in self.steps if step.name in names}
        found = []
        for step in self.steps:
            if step.name not in names and any(read.table.name in tables for read in step.reads.values()):
                tables.add(step.writes.name)
                found.append(step)
        return tuple(found)

    def repeat(self, check: str) -> str:
        """Return the command that runs just this check, with the same seed."""
        return shlex.join(["twice", "verify", *self.command, "--check", check, "--seed", str(self.seed)])

    def differences(
        self,
        check: Check,
        case: Case,
        *,
        against: Case | None = None,
        names: tuple[str, str],
        why: Why | None = None,
        steps: Sequence[Step] | None = None,
    ) -> list[Finding]:
        """Compare a case with a clean run, table by table; what only follows from another difference is left out."""
        other = against or self.clean
        held = other.final
        chosen = self.compared if steps is None else steps
        if not chosen:
            raise NotRun("no table can be compared: each is declared as not repeatable, or keeps rows by design")
        expected = held if held is not None else {step.writes.name: other.digest(step.writes.name) for step in chosen}
        wrong = [step for step in chosen if case.digest(step.writes.name) != expected[step.writes.name]]
        tables = {step.writes.name for step in wrong}
        first = [step for step in wrong if not any(read.table.name in tables for read in _others(step))]
        return [self._difference(check, step, other, case, names, why or Why()) for step in first]

    def _difference(
        self, check: Check, step: Step, one: Case, other: Case, names: tuple[str, str], why: Why
    ) -> Finding:
        table = step.writes
        left, right = one.rows(table.name), other.rows(table.name)
        evidence = None
        if left is not None and right is not None:
            evidence = compare(left, right, key=table.key, personal=table.personal, names=names)
        what = why.what or f"its rows differ {names[1]}"
        if evidence is None:
            what = f"the table exists only {names[0] if left is not None else names[1]}"
        return self.finding(check, step, what, cause=why.cause or cause_of(step, evidence), fix=why.fix,
                            evidence=evidence, inputs=other.folders)  # fmt: skip

    def finding(
        self,
        check: Check,
        step: Step,
        what: str,
        *,
        cause: str,
        fix: str,
        evidence: Evidence | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> Finding:
        """Return what a check found about a step."""
        return Finding(
            check.name, step.name, step.writes.name, check.promise, what, cause, fix, self.repeat(check.name), evidence,
            inputs or {},
        )  # fmt: skip


@dataclass(frozen=True)
class Why:
    """What a check reports about a difference that it finds."""

    what: str = ""
    cause: str = ""
    fix: str = "compute the rows from the inputs and the window alone"


def _others(step: Step) -> Iterator[Read]:
    """Yield what a step reads, without its own output."""
    yield from (read for read in step.reads.values() if read.table.id != step.writes.id)
