"""Rebuild a merged table from its history: all its windows are computed again and replace it in one commit.

A merge only adds and updates: what a corrected step no longer returns stays in the table. A rebuild computes each
window with the current code and inputs, merges them in order as if the table were empty, and replaces the table
by the result. Readers see the old table until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING

from twice.content import changes, replay
from twice.engine.attempt import gating
from twice.engine.attempt.compute import batches
from twice.engine.attempt.holding import hold_lease
from twice.engine.attempt.inputs import Pinned, pin, records
from twice.engine.attempt.merging import judge_source
from twice.engine.attempt.reading import bind
from twice.engine.attempt.recorded_attempt import recorded_attempt
from twice.engine.attempt.samples import LIMIT, rows_text
from twice.engine.attempt.stage_result import StageResult
from twice.engine.attempt.task import Task
from twice.engine.attempt.unmoved import require_unmoved
from twice.engine.attempt.verbs import publish, record, recover
from twice.engine.chunks.task_per_partition import staged_rows
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.plan import PlannedStep
from twice.engine.run import task_of
from twice.engine.spark.environment import environment
from twice.engine.spark.interrupts import plain_interrupts
from twice.engine.spark.metrics import priced
from twice.errors import MergeRefused, UsageError
from twice.model.content import Content
from twice.model.patterns import InsertOnly, Merge
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.outputs import Finding
    from twice.engine.run import Runtime
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step

# Windows whose rows are settled together: a plan of hundreds of unions takes Spark longer than its rows.
AT_ONCE = 20


@dataclass(frozen=True)
class Rebuild:
    """A table, the step that makes it, and the windows from the first to the last that was ever merged into it."""

    pipeline: Pipeline
    step: Step
    windows: tuple[Window, ...]

    @property
    def hull(self) -> Window:
        """The span from the first to the last window."""
        return Window(self.windows[0].start, self.windows[-1].end)

    @property
    def text(self) -> str:
        """The plan in words."""
        grain, zone = self.pipeline.grain, self.pipeline.zone
        first, last = (grain.label(window.start, zone) for window in (self.windows[0], self.windows[-1]))
        span = first if first == last else f"{first} … {last}"
        count = len(self.windows)
        return (
            f"{self.step.writes.name}: {self.step.name} for {count} {grain} window{'' if count == 1 else 's'} "
            f"({span}), merged in order and put in the table's place"
        )


@dataclass(frozen=True)
class RebuildResult:
    """How a rebuild ended."""

    run: str
    table: str
    windows: int
    status: str
    rows: int
    version: str | None

    @property
    def text(self) -> str:
        """The result in words."""
        what = "holds what it held before" if self.status == "unchanged" else f"rebuilt as version {self.version}"
        return f"run {self.run}: {self.table} {what}, {self.rows} rows from {self.windows} windows"

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__)


def plan_rebuild(ledger: Ledger | None, pipeline: Pipeline, step: Step) -> Rebuild:
    """Find the windows that a merged table was made from; tables that need no rebuild are refused."""
    table = step.writes
    if not isinstance(table.write, Merge | InsertOnly):
        assert table.write is not None  # noqa: S101 - a produced table has a pattern
        raise UsageError(
            f"{table.name} needs no rebuild: its runs {table.write.text}, so nothing of earlier runs stays",
            next_step=f"twice run {pipeline.name} --step {step.name} --from … --to …",
        )
    if step.kind == "extract":
        raise UsageError(
            f"{table.name} is fetched from outside by {step.name}: what it fetched then cannot be fetched again",
            next_step="land it raw in a table of its own with Overwrite(), and merge from there",
        )
    past = ledger.attempts.merged(pipeline.name, step.name) if ledger else []
    merged = [each.scope.window for each in past if each.status in ("published", "unchanged") and each.scope.window]
    if not merged:
        raise UsageError(f"nothing has been merged into {table.name} yet, so there is nothing to rebuild it from")
    hull = Window(min(window.start for window in merged), max(window.end for window in merged))
    return Rebuild(pipeline, step, tuple(pipeline.grain.partitions(hull, pipeline.zone)))


def rebuild(runtime: Runtime, plan: Rebuild, *, command: str = "") -> RebuildResult:
    """Compute every window again, and replace the table with the result in one commit."""
    pipeline, step = plan.pipeline, plan.step
    scope = Scope(plan.hull)
    tags = {"rebuild": step.writes.name}
    made_with = environment(runtime, pipeline)
    recorded = recorded_run(runtime.ledger, pipeline.name, scope, command=command, tags=tags, environment=made_with)
    with recorded as run, plain_interrupts():
        planned = PlannedStep(step, scope, Target.of(step.writes, scope, pipeline.zone))
        with recorded_attempt(task_of(runtime, pipeline, planned, run)) as task:
            finding = _replace(task, plan)
    return RebuildResult(run, step.writes.name, len(plan.windows), finding.status, finding.rows, finding.version)


def _replace(task: Task, plan: Rebuild) -> Finding:
    """Publish the replayed history by the protocol's own verbs."""
    task.store.check(task.session, task.step.writes)
    with hold_lease(task) as holding:
        claim = holding.claim
        recover(task, claim)
        alone = [replace(task, scope=Scope(window)) for window in plan.windows]
        pinned = [pin(each) for each in alone]
        inputs = _together(task, pinned)
        task.ledger.leases.bind(task.attempt_id, claim, base_version=None, inputs=records(task, inputs))
        rows = _replayed(task, zip(alone, pinned, strict=True))
        task.store.prepare(task.session, task.step.writes, rows.schema)
        staged = task.store.open(task.session, task.target, claim.token)
        task.ledger.leases.bind(task.attempt_id, claim, base_version=staged.base, inputs=records(task, inputs))
        task.store.stage(task.session, staged, rows)
        gating.refuse_strays(task, staged)
        with staged_rows(task, staged) as read:
            verdict = gating.judge(task, read)
        for each, mine in zip(alone, pinned, strict=True):
            require_unmoved(each, mine)
        finding = priced(task, publish(task, claim, inputs, StageResult(staged), verdict))
        record(task, claim, finding)
    return finding


def _replayed(task: Task, windows: Iterator[tuple[Task, list[Pinned]]]) -> DataFrame:
    """Compute the windows in order, and keep of each key what a merge of all of them would have kept."""
    kept: DataFrame | None = None
    while some := list(islice(windows, AT_ONCE)):
        new = [rows for alone, inputs in some for rows in _brought(alone, inputs)]
        parts = new if kept is None else [kept, *new]
        rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
        # Materialised: later rounds would compute it again, and a lost block must fail the attempt.
        kept = _settled(task, rows).localCheckpoint()
    assert kept is not None  # noqa: S101 - a plan has at least one window
    if disputed := changes.disputed_in_source(kept, _matched(task), LIMIT):
        keys = rows_text(task.step.writes, [{name: row[name] for name in _matched(task)} for row in disputed])
        raise MergeRefused(
            f"{task.step.writes.name}: its windows have several contents for one key, and no version decides:{keys}",
            unchanged="the table is as it was",
            next_step="decide in the step which one is right, or choose a version that decides",
        )
    result = kept.drop(replay.BROUGHT_BY)
    judge_source(task, result)
    return result


def _brought(task: Task, inputs: Sequence[Pinned]) -> Iterator[DataFrame]:
    """Compute one window; its rows are marked with it."""
    for rows in batches(task, {pinned.name: bind(task, pinned) for pinned in inputs}):
        yield replay.brought(rows, str(task.scope.window))


def _settled(task: Task, rows: DataFrame) -> DataFrame:
    pattern = task.step.writes.write
    if isinstance(pattern, Merge):
        return replay.newest_of_all(rows, _matched(task), pattern.version)
    if isinstance(pattern, InsertOnly) and pattern.on_conflict == "keep":
        return replay.earliest_of_all(rows, _matched(task))
    return replay.earliest_of_equal(rows, _matched(task))


def _matched(task: Task) -> list[str]:
    table = task.step.writes
    return [*table.key, *(name for name in table.partition_columns if name not in table.key)]


def _together(task: Task, pinned: Sequence[Sequence[Pinned]]) -> list[Pinned]:
    """Return the inputs of all windows as one list: each input once, with the partitions that some window read."""
    found: list[Pinned] = []
    for same in zip(*pinned, strict=True):
        last, partitions = same[-1], dict[str, str]()
        for each in same:
            partitions |= _partitions(each.record.partitions, task)
        assert task.scope.window is not None  # noqa: S101 - a rebuild has a hull
        cut = last.read.cut(task.scope.window, task.step.writes.lateness, task.pipeline.zone)
        found.append(replace(last, cut=cut, record=replace(last.record, partitions=partitions)))
    return found


def _partitions(recorded: Mapping[str, str], task: Task) -> dict[str, str]:
    """Keep what is known of each partition; what was seen of many windows has no single fingerprint."""
    return {key: Content("unknown", task.run).text if key == "window" else text for key, text in recorded.items()}
