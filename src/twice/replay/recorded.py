"""What the ledger holds of a run, and which of its steps can be tried: decided without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.engine.attempt.fingerprint import changed_parts, fingerprint, parts
from twice.engine.spark.environment import zone_of
from twice.errors import UsageError, did_you_mean
from twice.replay.report import StepReplay, cannot

if TYPE_CHECKING:
    from twice.ledger import AttemptInfo, Ledger, Output, RunInfo
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step

# How attempts end that have computed something.
_MADE = ("published", "unchanged")
_NOTHING_MADE = {
    "running": "the run is still at work on it",
    "superseded": "the run wrote nothing: the table held a later window already",
    "accepted": "the run computed nothing: it accepted a code change",
    "lost": "its process ended before it published anything",
    "interrupted": "it was interrupted before it published anything",
    "held": "another run held the scope, so nothing was computed",
}


@dataclass(frozen=True)
class Recorded:
    """One step of a run that can be tried: what it read and wrote, and the step as it is declared now."""

    run: RunInfo
    pipeline: Pipeline
    step: Step
    attempt: AttemptInfo
    outputs: Sequence[Output]


@dataclass(frozen=True)
class Plan:
    """The steps of a run in their order: those that can be tried, and the others with the reason."""

    run: RunInfo
    steps: Sequence[Recorded | StepReplay]

    @property
    def needs_spark(self) -> bool:
        """Whether anything is to be computed."""
        return any(isinstance(step, Recorded) for step in self.steps)


def plan_replay(ledger: Ledger, pipelines: Iterable[Pipeline], run_id: str, *, steps: Sequence[str] = ()) -> Plan:
    """Look up a run, and decide for each of its steps whether it can be tried; or only for some `steps`."""
    info = ledger.runs.get(run_id)
    pipeline = next((each for each in pipelines if each.name == info.pipeline), None)
    attempts = _last_attempts(info, pipeline)
    chosen = [attempt for attempt in attempts if not steps or attempt.step in steps]
    found = [_judged(ledger, info, pipeline, attempt) for attempt in chosen]
    missing = [name for name in steps if name not in {attempt.step for attempt in attempts}]
    return Plan(info, [*found, *(_not_reached(info, pipeline, attempts, name) for name in missing)])


def _last_attempts(info: RunInfo, pipeline: Pipeline | None) -> list[AttemptInfo]:
    """Return for each step and scope the attempt that made it, else the last one; upstream first."""
    found: dict[tuple[str, str], AttemptInfo] = {}
    for attempt in info.attempts:
        key = attempt.step, str(attempt.scope)
        # What gates refused of a chunk is recorded after the attempt that made the rest.
        if key not in found or not (found[key].status in _MADE and attempt.is_part):
            found[key] = attempt
    order = [step.name for step in pipeline.ordered()] if pipeline else []
    place = {name: number for number, name in enumerate(order)}
    return sorted(found.values(), key=lambda attempt: place.get(attempt.step, len(place)))


def _not_reached(info: RunInfo, pipeline: Pipeline | None, attempts: Sequence[AttemptInfo], name: str) -> StepReplay:
    """Return why a run has no attempt of a requested step; an unknown step is refused."""
    declared: Mapping[str, Step] = pipeline.steps if pipeline else {}
    if name not in declared:
        known = list(dict.fromkeys([*(attempt.step for attempt in attempts), *declared]))
        raise UsageError(
            f"run {info.id} has no step {name!r}; its steps are: {', '.join(known)}{did_you_mean(name, known)}",
            unchanged="nothing was computed",
            next_step=f"twice show {info.id}",
        )
    table = declared[name].writes
    ended = {"running": "the run is still running and has not reached it", "done": "the run did not include it"}
    why = ended.get(info.status, f"the run ended before it: it is {info.status}")
    return StepReplay(name, table.name, str(table.scope(info.scope)), "cannot", why, f"twice show {info.id}")


def _judged(ledger: Ledger, info: RunInfo, pipeline: Pipeline | None, attempt: AttemptInfo) -> Recorded | StepReplay:
    if pipeline is None:
        return cannot(attempt, *_no_pipeline(info))
    step = pipeline.steps.get(attempt.step)
    if step is None:
        return cannot(attempt, *_no_step(info, pipeline, attempt))
    if reason := _nothing_made(ledger, attempt) or _no_computation(info, step, attempt):
        return cannot(attempt, *reason)
    if reason := _other_code(ledger, info, pipeline, step, attempt):
        return cannot(attempt, *reason)
    outputs = ledger.outputs.recorded_by(attempt.table, attempt.token) if attempt.token is not None else []
    if not outputs:
        return cannot(attempt, "what it published was pruned from the ledger, so there is nothing to compare with")
    return Recorded(info, pipeline, step, attempt, outputs)


def _no_pipeline(info: RunInfo) -> tuple[str, str]:
    name, at, backfill = info.pipeline.partition("@")
    if at:
        return f"the run built a shadow of {name} for backfill {backfill}, and that shadow no longer exists", ""
    return (
        f"the pipeline {name} is not configured here",
        f"add it to [pipelines] in twice.toml, or check out the code that had it{_commit(info, ': git checkout ')}",
    )


def _no_step(info: RunInfo, pipeline: Pipeline, attempt: AttemptInfo) -> tuple[str, str]:
    if attempt.step in pipeline.streams:
        return (
            "it is a stream, whose batches are rebuilt by their offsets",
            f"twice stream replay {pipeline.name} {attempt.step} --from A --to B",
        )
    return (
        f"the pipeline {pipeline.name} no longer has the step {attempt.step}",
        f"check out the code that had it{_commit(info, ': git checkout ')}",
    )


def _nothing_made(ledger: Ledger, attempt: AttemptInfo) -> tuple[str, str] | None:
    """Return why an attempt has no rows of its own; None if it has."""
    if attempt.status in _MADE:
        return None
    if attempt.status == "fresh":
        made = {output.run: None for output in ledger.outputs.held(attempt.table, attempt.scope) if output.run}
        known = [run for run in made if run < attempt.run]
        return (
            "the run found it up to date and computed nothing",
            f"twice replay {known[0]}, which made it" if known else "",
        )
    error = attempt.error.splitlines()[0] if attempt.error else "it failed"
    return _NOTHING_MADE.get(attempt.status, f"nothing was published: {error}"), f"twice show {attempt.run}"


def _no_computation(info: RunInfo, step: Step, attempt: AttemptInfo) -> tuple[str, str] | None:
    """Name what an attempt did instead of computing its step from versioned inputs; None if it did that."""
    how, _, what = attempt.code.partition(":")
    if how == "undo":
        return f"the run put back what run {what} had replaced", f"twice show {what}"
    if how == "swap":
        return f"the run put the shadow of backfill {what} in place", f"twice backfill show {what}"
    if info.tags.get("rebuild") == attempt.table:
        return f"the run rebuilt {attempt.table} from all its windows; only runs of one scope can be rebuilt", ""
    if step.kind == "extract":
        return (
            "it is an extract: what its source returned then has no versions",
            "replay the steps that read what it landed: that is kept by version",
        )
    return None


def _other_code(
    ledger: Ledger, info: RunInfo, pipeline: Pipeline, step: Step, attempt: AttemptInfo
) -> tuple[str, str] | None:
    """Name what differs between the code that made the rows and the code as it is now."""
    zone = zone_of(info.environment)
    if zone is not None and zone != pipeline.zone.key:
        why = f"the time zone of {pipeline.name} was {zone} and is {pipeline.zone.key} now, so its windows differ"
    elif attempt.code == fingerprint(step):
        return None
    else:
        before = ledger.codes.parts(attempt.code)
        names = changed_parts(before, parts(step)) if before else ()
        why = f"the code has changed since: {', '.join(names)}" if names else "the code has changed since"
    if not info.environment.get("commit"):
        return why, f"check out the code of {info.started_at:%Y-%m-%d %H:%M}Z; the run recorded no commit"
    if info.environment.get("dirty"):
        return why, f"git checkout{_commit(info, ' ')} is near it: the run had uncommitted changes"
    return why, f"git checkout{_commit(info, ' ')}, then twice replay {info.id}"


def _commit(info: RunInfo, before: str) -> str:
    commit = info.environment.get("commit")
    return f"{before}{commit}" if commit else ""
