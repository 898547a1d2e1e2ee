"""Undo a run: every scope it published goes back to what it held before, as a new publish."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from twice.content.filters import scope_filter
from twice.engine.attempt.differences import known_outputs
from twice.engine.attempt.gating import Verdict, profiled
from twice.engine.attempt.holding import hold_lease
from twice.engine.attempt.recorded_attempt import recorded_attempt
from twice.engine.attempt.stage_result import StageResult
from twice.engine.attempt.task import Task
from twice.engine.attempt.verbs import publish, record, recover
from twice.engine.operations.recorded_run import recorded_run
from twice.engine.spark.session import fresh
from twice.errors import StoreRefused, UsageError, did_you_mean
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from twice.engine.attempt.outputs import Finding
    from twice.engine.run import Runtime
    from twice.ledger import AttemptInfo, Output
    from twice.model.pipelines import Pipeline


@dataclass(frozen=True, repr=False)
class UndoResult:
    """One scope of one table, put back; or left as the run published it, and `why`."""

    step: str
    table: str
    scope: str
    version: str | None
    status: str
    rows: int = 0
    why: str = ""

    def __repr__(self) -> str:
        return f"UndoResult({self.text})"

    @property
    def text(self) -> str:
        """The result in words."""
        if self.why:
            return f"{self.table}, {self.scope}: {self.status} as the run published it: {self.why}"
        before = f"version {self.version}" if self.version else "nothing"
        return f"{self.table}, {self.scope}: {self.status} to {before} ({self.rows} rows)"

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__)


def undo(
    runtime: Runtime,
    pipelines: Mapping[str, Pipeline],
    run_id: str,
    *,
    steps: Sequence[str] = (),
    tables: Sequence[str] = (),
    dry_run: bool = False,
) -> list[UndoResult]:
    """Put every scope that a run published back to what it was, last step first; or only some `steps` and `tables`.

    All scopes are checked before the first one is touched: a scope that has changed since, or
    whose earlier version has expired, is refused. What is left out is reported as it stays.
    """
    info = runtime.ledger.runs.get(run_id)
    if info.pipeline not in pipelines:
        raise UsageError(f"run {info.id} belongs to the pipeline {info.pipeline}, which is not configured here")
    pipeline = pipelines[info.pipeline]
    published = [attempt for attempt in reversed(info.attempts) if attempt.status == "published"]
    if not published:
        raise UsageError(f"run {info.id} published nothing, so there is nothing to undo")
    if streams := sorted({attempt.step for attempt in published} - set(pipeline.steps)):
        raise UsageError(
            f"run {info.id} is of {', '.join(streams)}, and only steps of {pipeline.name} can be undone",
            unchanged="nothing was undone",
            next_step=f"a stream's batches are restated: twice stream replay {pipeline.name} --from A --to B",
        )
    published.sort(key=lambda attempt: list(pipeline.steps).index(attempt.step), reverse=True)
    tasks = [(_task(runtime, pipeline, attempt, info.id), attempt) for attempt in published]
    tasks, left = _chosen(tasks, info.id, steps, tables)
    _require_history([task for task, _ in tasks], info.id)
    # An undo that was killed continues where it stopped.
    tasks = [(task, attempt) for task, attempt in tasks if not _undone_before(task, attempt)]
    if not tasks:
        what = f"these tables of run {info.id} have" if steps or tables else f"run {info.id} has"
        raise UsageError(f"{what} already been undone", unchanged="nothing was changed")
    for task, attempt in tasks:
        _require_untouched(task, attempt, info.id)
    if dry_run:
        return [
            _result(task, attempt, "would be restored", _rows_before(task, attempt)) for task, attempt in tasks
        ] + left
    command, tags = f"twice undo {info.id}", {"undo": info.id}
    with recorded_run(runtime.ledger, pipeline.name, info.scope, command=command, tags=tags) as run:
        done = [_restore(replace(task, run=run), attempt, info.id) for task, attempt in tasks]
    return done + left


def _chosen(
    tasks: list[tuple[Task, AttemptInfo]], run: str, steps: Sequence[str], tables: Sequence[str]
) -> tuple[list[tuple[Task, AttemptInfo]], list[UndoResult]]:
    """Separate what is to be undone from what stays; without a choice, all of it is."""
    made = {"step": [task.step.name for task, _ in tasks], "table": [task.step.writes.name for task, _ in tasks]}
    for kind, names in (("step", steps), ("table", tables)):
        for name in names:
            if name not in made[kind]:
                raise UsageError(
                    f"run {run} published no {kind} {name!r}; it published: {', '.join(made[kind])}"
                    f"{did_you_mean(name, made[kind])}",
                    unchanged="nothing was undone",
                )
    if not steps and not tables:
        return tasks, []
    chosen, left = [], []
    for task, attempt in tasks:
        if task.step.name in steps or task.step.writes.name in tables:
            chosen.append((task, attempt))
        elif not _undone_before(task, attempt):
            stays = _result(task, attempt, "stays", attempt.rows or 0)
            left.append(replace(stays, why=_no_history(task) or "it was not chosen"))
    return chosen, left


def _no_history(task: Task) -> str:
    """Return why a table cannot go back; nothing where it can."""
    abilities = task.store.abilities
    return "" if abilities.history else f"a {abilities.kind} store keeps no earlier versions"


def _task(runtime: Runtime, pipeline: Pipeline, attempt: AttemptInfo, run: str) -> Task:
    step = pipeline.find(attempt.step)
    return Task(
        pipeline=pipeline,
        step=step,
        scope=attempt.scope,
        target=Target.of(step.writes, attempt.scope, pipeline.zone),
        run=run,
        code=f"undo:{run}",
        session=fresh(runtime.spark, pipeline.zone.key),
        stores=runtime.stores,
        ledger=runtime.ledger,
        lease=runtime.lease,
        listener=runtime.listener,
    )


def _require_history(tasks: Sequence[Task], run: str) -> None:
    """Refuse tables that cannot go back, before anything does; name what can."""
    without = [task for task in tasks if _no_history(task)]
    if not without:
        return
    rest = [f"--table {shlex.quote(task.step.writes.name)}" for task in tasks if not _no_history(task)]
    others = f"undo the other tables: twice undo {run} {' '.join(rest)}; here " if rest else ""
    raise StoreRefused(
        "; ".join(f"{task.step.writes.name}: {_no_history(task)} to go back to" for task in without),
        unchanged="nothing was undone",
        next_step=f"{others}correct the input or the step, and run the date again: its scope is replaced as a whole",
    )


def _require_untouched(task: Task, attempt: AttemptInfo, run: str) -> None:
    """Refuse to undo what another writer has changed since."""
    now = task.store.files(task.session, task.target, task.store.version(task.session, task.step.writes))
    known = known_outputs(task)
    for partition in _published(task, attempt):
        output = known.get(partition)
        as_recorded = output is not None and output.files == now[partition]
        if output is None or not as_recorded or not _made_by(task, attempt, partition, output, now[partition]):
            later = output.run if output is not None and as_recorded else ""
            raise StoreRefused(
                f"{task.step.writes.name}, {task.target.name(partition)} was changed by "
                f"{f'run {later}' if later else 'another writer'} after run {run}",
                unchanged="nothing was undone",
                next_step=f"twice undo {later}, then twice undo {run}; or run the date again"
                if later
                else "revert that change by hand, then undo; or run the date again, which rebuilds it from its inputs",
            )
    _before(task, attempt)


def _published(task: Task, attempt: AttemptInfo) -> list[Scope]:
    """Return the partitions that an attempt published: all of its scope, but for those that gates refused."""
    refused = attempt.details.get("refused")
    names = set(refused) if isinstance(refused, Mapping) else set()
    return [partition for partition in task.target.partitions if task.target.name(partition) not in names]


def _undone_before(task: Task, attempt: AttemptInfo) -> bool:
    """Return whether the scope has gone back already, by an earlier undo of the same run."""
    now = task.store.files(task.session, task.target, task.store.version(task.session, task.step.writes))
    known = known_outputs(task)
    outputs = [known.get(partition) for partition in _published(task, attempt)]
    return all(
        output is not None and output.code == task.code and output.files == now[output.scope] for output in outputs
    )


def _made_by(task: Task, attempt: AttemptInfo, partition: Scope, output: Output, files: str) -> bool:
    """Return whether a partition is as the attempt left it; a later run that changed nothing may have recorded it."""
    if output.token == attempt.token:
        return True
    return (
        attempt.version is not None and task.store.files(task.session, task.target, attempt.version)[partition] == files
    )


def _before(task: Task, attempt: AttemptInfo) -> Mapping[Scope, str]:
    """Look up the earlier version; the store refuses one that has expired."""
    return task.store.files(task.session, task.target, attempt.base_version)


def _rows_before(task: Task, attempt: AttemptInfo) -> int:
    return (
        task.store.read(task.session, task.step.writes, attempt.base_version).where(scope_filter(task.target)).count()
    )


def _restore(task: Task, attempt: AttemptInfo, run: str) -> UndoResult:
    with recorded_attempt(task) as recorded:
        finding = _put_back(recorded, attempt, run)
    return _result(task, attempt, "restored", finding.rows)


def _put_back(task: Task, attempt: AttemptInfo, run: str) -> Finding:
    """Publish the earlier version of the scope by the protocol's own verbs."""
    table = task.step.writes
    with hold_lease(task) as holding:
        claim = holding.claim
        recover(task, claim)
        # Checked before the claim, too; another run may have published in between.
        _require_untouched(task, attempt, run)
        staged = task.store.open(task.session, task.target, claim.token)
        task.ledger.leases.bind(task.attempt_id, claim, base_version=staged.base, inputs=())
        before = task.store.read(task.session, table, attempt.base_version).where(scope_filter(task.target))
        task.store.stage(task.session, staged, _with_new_columns(task, before))
        found = profiled(task, task.store.staged(task.session, staged), key=())
        verdict = Verdict({partition: found[partition].digest for partition in _published(task, attempt)})
        finding = publish(task, claim, [], StageResult(staged), verdict)
        record(task, claim, finding)
    return finding


def _with_new_columns(task: Task, before: DataFrame) -> DataFrame:
    """Fill columns that the table has gained since with null."""
    now = task.store.read(task.session, task.step.writes, None).schema
    missing = {field.name: F.lit(None).cast(field.dataType) for field in now.fields if field.name not in before.columns}
    return before.withColumns(missing) if missing else before


def _result(task: Task, attempt: AttemptInfo, status: str, rows: int) -> UndoResult:
    return UndoResult(task.step.name, task.step.writes.name, str(task.target.scope), attempt.base_version, status, rows)
