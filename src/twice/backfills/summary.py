"""How a backfill ended: rows, partitions, what failed and why, and the command that continues it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.backfills.spans import union
from twice.engine.notebooks import plural, table
from twice.errors import Interrupted, PermanentError
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.backfills.planning import Plan
    from twice.backfills.request import Request
    from twice.ledger import Chunk, Ledger, Tally
    from twice.model.pipelines import Pipeline

_EXIT = {"done": 0, "nothing to do": 0, "interrupted": 130}


@dataclass(frozen=True)
class Failure:
    """Partitions that were not built, and why."""

    step: str
    span: str
    reason: str
    blocked: bool = False

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True, repr=False)
class BackfillResult:
    """How a backfill ended."""

    pipeline: str
    status: str
    backfill: str = ""
    tallies: tuple[Tally, ...] = ()
    failures: tuple[Failure, ...] = ()
    next_step: str = ""

    @classmethod
    def of_nothing(cls, plan: Plan) -> BackfillResult:
        """Sum up a range in which everything is already as requested."""
        return cls(plan.pipeline.name, "nothing to do")

    def __repr__(self) -> str:
        if not self.backfill:
            return f"BackfillResult({self.pipeline}: {self.status})"
        done, rows = sum(tally.done for tally in self.tallies), sum(tally.rows for tally in self.tallies)
        failed = f", {len(self.failures)} not built" if self.failures else ""
        made = f"{plural(done, 'partition')}, {plural(rows, 'row')}{failed}"
        return f"BackfillResult({self.backfill}, {self.pipeline}: {self.status}; {made})"

    def _repr_html_(self) -> str:
        states = ("done", "running", "waiting", "failed", "blocked", "cancelled")
        shown = [state for state in states if state == "done" or any(getattr(each, state) for each in self.tallies)]
        rows = [(each.step, *(getattr(each, state) for state in shown), each.rows) for each in self.tallies]
        failures = [f"{each.step} {each.span}: {each.reason}" for each in self.failures]
        title = f"Backfill {self.backfill} of {self.pipeline}" if self.backfill else self.pipeline
        return table(f"{title}: {self.status}", ("step", *shown, "rows"), rows, failures)

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 3 if anything was not built."""
        return _EXIT.get(self.status, 3)

    @property
    def lines(self) -> Iterator[str]:
        """The summary for a human."""
        if not self.backfill:
            yield f"{self.pipeline}: nothing to do, every partition of the range is up to date"
            return
        done, rows = sum(t.done for t in self.tallies), sum(t.rows for t in self.tallies)
        word = "finished in part" if self.status == "partly" else self.status
        yield f"backfill {self.backfill} of {self.pipeline}: {word}: {done} partitions, {rows} rows"
        for tally in self.tallies:
            bad = {"failed": tally.failed, "blocked": tally.blocked, "cancelled": tally.cancelled}
            rest = {**bad, "waiting": tally.waiting + tally.running}
            more = "".join(f", {count} {state}" for state, count in rest.items() if count)
            yield f"  {tally.step}: {tally.done} of {tally.total} partitions{more}, {tally.rows} rows"
        for failure in self.failures:
            yield f"  {'not built' if failure.blocked else 'failed'}: {failure.step} {failure.span}: {failure.reason}"
        if self.next_step:
            yield f"  next: {self.next_step}"

    @property
    def error(self) -> str:
        """The first thing that went wrong, in one line; empty if nothing did."""
        if not self.failures:
            return ""
        first = self.failures[0]
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        return f"{first.step} {first.span}: {first.reason}{more}"

    def raise_failures(self) -> None:
        """Raise if anything was not built; what was built stays published."""
        if not self.exit_code:
            return
        text = "\n".join(line for line in self.lines if line != f"  next: {self.next_step}")
        kind = Interrupted if self.status == "interrupted" else PermanentError
        raise kind(text, unchanged="the partitions that were built are published", next_step=self.next_step)

    def to_json(self) -> dict[str, object]:
        return {
            "backfill": self.backfill,
            "pipeline": self.pipeline,
            "status": self.status,
            "exit_code": self.exit_code,
            "steps": [tally.to_json() for tally in self.tallies],
            "failures": [failure.to_json() for failure in self.failures],
            "next_step": self.next_step,
        }


def summarise(ledger: Ledger, pipeline: Pipeline, request: Request, backfill: str, status: str) -> BackfillResult:
    """Sum up what the ledger holds of a backfill."""
    bad = [
        chunk
        for chunk in ledger.backfills.chunks.list(backfill)
        if chunk.state in ("failed", "blocked", "cancelled") or chunk.refused
    ]
    failures: list[Failure] = []
    windows: list[Window] = []
    for chunk in bad:
        if chunk.state == "cancelled":
            continue
        for name, window, reason in _unmade(pipeline, chunk):
            failures.append(Failure(chunk.step, name, reason.splitlines()[0], chunk.state == "blocked"))
            windows.append(window)
    next_step = ""
    if status in ("interrupted", "lost", "paused", "running"):
        next_step = f"twice backfill resume {backfill}"
    elif request.shadow and status in ("done", "partly", "cancelled"):
        next_step = _next_of_shadow(backfill, status)
    elif windows:
        units = _units(pipeline, windows)
        next_step = request.again.command(pipeline, Window(units[0].start, units[-1].end))
    elif status == "cancelled":
        next_step = request.command(pipeline, request.window)
    # On shadows a pipeline goes by another name.
    name = pipeline.name.partition("@")[0]
    return BackfillResult(name, status, backfill, ledger.backfills.chunks.tallies(backfill), tuple(failures), next_step)


def _next_of_shadow(backfill: str, status: str) -> str:
    if status == "done":
        return f"twice backfill diff {backfill}, then twice backfill swap {backfill}, or drop {backfill}"
    again = f"twice backfill resume {backfill} --restart; or " if status == "partly" else ""
    return f"{again}twice backfill drop {backfill}"


def _unmade(pipeline: Pipeline, chunk: Chunk) -> Iterator[tuple[str, Window, str]]:
    """Return what a chunk did not build."""
    window = chunk.scope.window
    assert window is not None  # noqa: S101 - a chunk has a window
    if not chunk.refused:
        yield span_of(pipeline, chunk.scope), window, chunk.error or "failed"
        return
    target = Target.of(pipeline.find(chunk.step).writes, chunk.scope, pipeline.zone)
    for partition in target.partitions:
        name = target.name(partition)
        if name in chunk.refused:
            yield name, partition.window or window, chunk.refused[name]


def span_of(pipeline: Pipeline, scope: Scope) -> str:
    """Name a scope by its first and last unit."""
    assert scope.window is not None  # noqa: S101 - a chunk has a window
    grain, zone = pipeline.grain, pipeline.zone
    units = list(grain.partitions(scope.window, zone))
    first, last = (grain.label(unit.start, zone) for unit in (units[0], units[-1]))
    tail = "".join(f" {name}={value}" for name, value in scope.dimensions)
    return (first if first == last else f"{first} … {last} ({len(units)})") + tail


def _units(pipeline: Pipeline, windows: Sequence[Window]) -> list[Window]:
    """Widen windows to whole units of the pipeline's grain."""
    grain, zone = pipeline.grain, pipeline.zone
    return union([grain.containing(window.start, zone) for window in windows] + list(windows))
