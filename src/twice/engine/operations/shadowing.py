"""A pipeline whose steps write shadows of their tables, and read each other's."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from twice.engine.attempt.claiming import replace_dead_holders
from twice.engine.attempt.heartbeat import Heartbeat
from twice.engine.status.table_state import TableState
from twice.errors import ScopeHeld, StoreRefused, UsageError
from twice.failpoints import fail_point
from twice.model.patterns import InsertOnly, Merge
from twice.model.scopes import Scope
from twice.model.tables import Table
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.protocol import Shadowing

if TYPE_CHECKING:
    from twice.engine.run import Runtime
    from twice.engine.stores import Stores
    from twice.ledger import Output
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.store.protocol import Store

# How long a removal waits for runs that write the table.
PATIENCE = 60.0


def shadows_of(stores: Stores, steps: Sequence[Step], mark: str) -> dict[str, Table]:
    """Return by table's name the shadow that each step writes; what cannot have one is refused."""
    found = {}
    for step in steps:
        table = step.writes
        if isinstance(table.write, Merge | InsertOnly):
            raise UsageError(
                f"step {step.name} merges into {table.name}: a shadow replaces partitions, and would lose what is "
                "merged meanwhile",
                unchanged="nothing was started",
                next_step=f"twice rebuild {table.name} builds it out of sight and publishes it at once; choose the "
                "other steps with --step",
            )
        found[table.name] = table.named(_shadowing(stores, table).shadow(table.id, mark))
    return found


def shadowed(pipeline: Pipeline, shadows: Mapping[str, Table], mark: str) -> Pipeline:
    """Return the pipeline on shadows; its runs go by a name of their own, so that no state mixes with the tables'."""
    found = copy.copy(pipeline)
    found.name = f"{pipeline.name}@{mark}"
    found.steps = {
        name: _shadow_step(step, shadows) if step.writes.name in shadows else step
        for name, step in pipeline.steps.items()
    }
    return found


def _shadow_step(step: Step, shadows: Mapping[str, Table]) -> Step:
    reads = {name: replace(read, table=shadows.get(read.table.name, read.table)) for name, read in step.reads.items()}
    return replace(step, reads=reads, writes=shadows[step.writes.name], shadow_of=step)


def begin(runtime: Runtime, pipeline: Pipeline, steps: Sequence[Step], backfill: str, scope: Scope) -> None:
    """Create every shadow from what its table holds now; an existing one stays as it is."""
    ledger = runtime.ledger

    def going() -> bool:
        return ledger.backfills.state(backfill)[0] in ("running", "paused")

    for step in steps:
        if _has_begun(runtime, step, backfill):
            continue
        try:
            with _claimed(runtime, step.writes, going, fences=False) as heartbeat:
                if not _has_begun(runtime, step, backfill):
                    _begin(runtime, pipeline, step, backfill, scope, heartbeat)
        except ScopeHeld:
            if going():
                raise
            return  # another process has ended it


def _has_begun(runtime: Runtime, step: Step, backfill: str) -> bool:
    assert step.shadow_of is not None  # noqa: S101 - a step of a shadowed pipeline
    shadow = runtime.ledger.backfills.shadows.find(backfill)
    return shadow is not None and step.shadow_of.writes.name in shadow.odd


def _begin(runtime: Runtime, pipeline: Pipeline, step: Step, backfill: str, scope: Scope, heartbeat: Heartbeat) -> None:
    """Fork one table and record what its shadow began with."""
    assert step.shadow_of is not None  # noqa: S101 - a step of a shadowed pipeline
    table, ledger = step.shadow_of.writes, runtime.ledger
    shadowing = _shadowing(runtime.stores, table)
    # A process that was killed here has left a shadow of what the table held at that time.
    shadowing.drop_shadow(runtime.spark, table, step.writes)
    known = {output.scope: output for output in ledger.outputs.list(table.name)}
    shadowing.fork(runtime.spark, table, step.writes)
    fail_point("shadow.forked")
    heartbeat.require()
    try:
        _inherit(runtime, pipeline, step, known, backfill, scope)
    except UsageError:  # dropped meanwhile, by a process that could not see this one
        shadowing.drop_shadow(runtime.spark, table, step.writes)
        raise


def _inherit(
    runtime: Runtime, pipeline: Pipeline, step: Step, known: Mapping[Scope, Output], backfill: str, scope: Scope
) -> None:
    """Record what is around the range as the shadow's own, and what in the range no run has recorded."""
    assert step.shadow_of is not None  # noqa: S101 - a step of a shadowed pipeline
    table, live = step.shadow_of.writes, TableState(runtime)
    mine = Target.of(table, scope, pipeline.zone)
    odd = {
        mine.name(partition): files
        for partition, files in live.outputs(mine).items()
        if files and (partition not in known or known[partition].files != files)
    }
    windows = [each.window for each in known if each.window]
    around: list[Output] = []
    if windows and table.partition is not None:
        hull = Scope(Window(min(window.start for window in windows), max(window.end for window in windows)))
        target = Target.of(table, hull, pipeline.zone)
        before, now = live.outputs(target), live.outputs(replace(target, table=step.writes))
        around = [
            replace(output, files=now[each], version=None)
            for each, output in known.items()
            if before.get(each) == output.files and not each.overlaps(mine.scope)
        ]
    runtime.ledger.backfills.shadows.inherit(backfill, table.name, around, odd)


def remove(runtime: Runtime, name: str, mark: str) -> None:
    """Remove the shadow of a table and everything that only it held; what it changed of the table, under a claim."""
    table = Table(name)
    shadowing = runtime.stores.source(table)
    assert isinstance(shadowing, Shadowing)  # noqa: S101 - it has made the shadow
    shadow = table.named(shadowing.shadow(table.id, mark))
    if shadowing.drop_shadow(runtime.spark, table, shadow):
        deadline = time.monotonic() + PATIENCE
        with _claimed(runtime, table, lambda: time.monotonic() < deadline):
            shadowing.undo_shadow(runtime.spark, table, shadow)


@contextmanager
def _claimed(
    runtime: Runtime, table: Table, patient: Callable[[], bool], *, fences: bool = True
) -> Iterator[Heartbeat]:
    """Keep other runs out of a table, once they have released it; without `fences`, out of one that has no rows."""
    ledger, store = runtime.ledger, cast("Store", runtime.stores.source(table))
    while True:
        try:
            floor = store.token(runtime.spark, table)
            claim = ledger.leases.claim(table.name, [Scope(None)], ttl=runtime.lease, floor=floor)
            break
        except ScopeHeld:
            if replace_dead_holders(ledger, table.name, Scope(None)):
                continue
            if not patient():
                raise
            time.sleep(1)
    try:
        with Heartbeat(ledger, claim, runtime.lease, on_lost=lambda: None) as heartbeat:
            for abandoned in claim.abandoned:
                landed = store.fence(runtime.spark, table, abandoned.token) if fences else None
                ledger.leases.settle(abandoned, landed=landed is not None, version=landed)
            yield heartbeat
    finally:
        ledger.leases.release(claim)


def _shadowing(stores: Stores, table: Table) -> Shadowing:
    store = stores.of(table)
    if not isinstance(store, Shadowing):
        raise StoreRefused(
            f"{table.name}: a {store.abilities.kind} store cannot build a table out of sight and swap it in at once",
            unchanged="nothing was started",
            next_step="leave --shadow out, or keep the table in a store of type iceberg, delta or sql",
        )
    return store
