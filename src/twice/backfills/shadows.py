"""The shadow of a backfill: look at what it would change, swap it in, or drop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from twice.backfills.presence import worker_heartbeat
from twice.backfills.request import Request
from twice.content.difference import Difference, by_partition, difference
from twice.content.filters import scope_filter
from twice.effects.paying import pay
from twice.engine.operations.recorded_run import end_failed_run, end_run
from twice.engine.operations.shadowing import remove, shadows_of
from twice.engine.operations.swapping import Swap, built, superseded, swap
from twice.engine.run import task_of
from twice.engine.spark.interrupts import plain_interrupts
from twice.engine.status.table_state import TableState
from twice.errors import Interrupted, ScopeHeld, UsageError

if TYPE_CHECKING:
    from twice.engine.run import Runtime
    from twice.ledger import BackfillInfo, Shadow
    from twice.model.pipelines import Pipeline


@dataclass(frozen=True)
class TableDifference:
    """One table, old against new: the partitions that differ, and how many do not."""

    step: str
    table: str
    partitions: Mapping[str, Difference]
    same: int

    def to_json(self) -> dict[str, object]:
        return {
            "step": self.step,
            "table": self.table,
            "same": self.same,
            "partitions": {name: found.to_json() for name, found in self.partitions.items()},
        }


@dataclass(frozen=True)
class Swapped:
    """One table after its swap."""

    table: str
    status: str
    rows: int
    version: str

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class ShadowOf:
    """The shadow of one backfill; `pipeline` is the one on the tables themselves."""

    runtime: Runtime
    pipeline: Pipeline
    info: BackfillInfo

    @cached_property
    def swaps(self) -> list[Swap]:
        """What is to be swapped, each table after those that it is made from."""
        shadow = _shadow(self.info)
        request = Request.from_json(self.info.request)
        steps = [step for step in self.pipeline.ordered() if step.writes.name in shadow.tables]
        if gone := sorted(set(shadow.tables) - {step.writes.name for step in steps}):
            raise UsageError(
                f"pipeline {self.pipeline.name} no longer writes {gone[0]}, which backfill {self.info.id} has built",
                unchanged="nothing was changed",
                next_step=f"check out the code that it was built with, or twice backfill drop {self.info.id}",
            )
        made = shadows_of(self.runtime.stores, steps, self.info.id)
        names = {name: table for table, name in shadow.tables.items()}
        return [Swap(self.pipeline, step, made[step.writes.name], request.scope, names, self.info.id) for step in steps]

    def diff(self) -> Iterator[TableDifference]:
        """Compare every table with its shadow; what is not built yet is compared as it is."""
        require_comparable(self.info)
        for wanted in self.swaps:
            yield _difference(self.runtime, wanted)

    def swap(self, *, force: bool = False, report: Callable[[str], None] = lambda _text: None) -> list[Swapped]:
        """Replace every table with its shadow, one by one; a swap killed between two tables continues there."""
        ledger, info = self.runtime.ledger, self.info
        require_finished(info)
        if _shadow(info).state == "swapped":  # killed before it could clean up
            self._remove()
            return []
        for wanted in self.swaps:
            if not superseded(self.runtime, wanted):
                built(self.runtime, wanted)
                if not force:
                    self._require_untouched(wanted)
        shadow = ledger.backfills.shadows.begin_swap(info.id, ttl=self.runtime.lease)
        try:
            with worker_heartbeat(self.runtime, info.id):
                done = self._swap_all(shadow, force=force, report=report)
        finally:
            ledger.backfills.shadows.leave_swap(info.id)
        try:
            self._remove()
        except ScopeHeld as held:
            report(f"{held.message}: the shadow's rows are not removed yet")
        return done

    def _swap_all(self, shadow: Shadow, *, force: bool, report: Callable[[str], None]) -> list[Swapped]:
        ledger, info, scope = self.runtime.ledger, self.info, self.swaps[0].scope
        command = f"twice backfill swap {info.id}"
        tags = {**Request.from_json(info.request).tags, "backfill": info.id, "swap": info.id}
        run = ledger.runs.start(self.pipeline.name, scope, command=command, tags=tags)
        done = []
        try:
            with plain_interrupts():
                for wanted in self.swaps:
                    table = wanted.step.writes.name
                    if table not in shadow.swapped:
                        report(f"{table}: swapping {scope}")
                        made = self._swap(wanted, run, force=force)
                        if made.status != "superseded":
                            self._suppress(wanted, run, report)
                        shadow = ledger.backfills.shadows.table_swapped(info.id, table, made.version)
                        done.append(made)
        except BaseException as error:
            end_failed_run(ledger, run, error)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(
                    f"the swap of backfill {info.id} was interrupted: {len(shadow.swapped)} of {len(shadow.tables)} "
                    "tables show the new rows",
                    unchanged="each table holds either its old or its new rows, never a mix",
                    next_step=command,
                ) from None
            raise
        end_run(ledger, run, "done")
        return done

    def _suppress(self, wanted: Swap, run: str, report: Callable[[str], None]) -> None:
        """Record the effects of what is published now as suppressed: `twice effects send` can send them."""
        for result in pay(self.runtime, self.pipeline, wanted.planned, run, suppress="all"):
            for error in result.errors:
                report(f"effect {result.effect}, {result.scope}: {error.message}")

    def _swap(self, wanted: Swap, run: str, *, force: bool) -> Swapped:
        """Swap one table; a table that already shows a later state than the range has nothing to swap."""
        table = wanted.step.writes.name
        if superseded(self.runtime, wanted):
            return Swapped(table, "superseded", 0, "")
        again = partial(self._require_untouched, wanted) if not force else _nothing
        shown = partial(self.runtime.ledger.backfills.shadows.show, self.info.id)
        finding = swap(self.runtime, wanted, run, again, shown)
        return Swapped(table, finding.status, finding.rows, finding.version or "")

    def drop(self, *, force: bool = False) -> None:
        """Remove the shadow and everything that it held; what a swap has put in place stays."""
        require_droppable(self.info, force=force)
        self.runtime.ledger.backfills.shadows.begin_drop(self.info.id)
        self._remove()

    @property
    def is_removed(self) -> bool:
        """Whether nothing is left of the shadow itself."""
        shadow = self.runtime.ledger.backfills.shadows.find(self.info.id)
        return shadow is None or shadow.removed

    def _remove(self) -> None:
        for table in _shadow(self.info).tables:
            remove(self.runtime, table, self.info.id)
        self.runtime.ledger.backfills.shadows.end(self.info.id)

    def _require_untouched(self, wanted: Swap) -> None:
        """Refuse to replace what another run or process wrote after the shadow began."""
        shadow, table, target = _shadow(self.info), wanted.step.writes, wanted.planned.target
        if shadow.begun_at is None or table.name in shadow.swapped:
            return
        newer = self.runtime.ledger.outputs.changed_since(table.name, target.scope.window, shadow.begun_at)
        # A swap that was killed before it was recorded has published its own rows.
        mine = {output.scope: output.digest for output in built(self.runtime, wanted).values()}
        newer = [each for each in newer if each.scope.overlaps(target.scope) and mine.get(each.scope) != each.digest]
        changed = {target.name(each.scope): f"by run {each.run}" for each in newer}
        known = {each.scope: each.files for each in self.runtime.ledger.outputs.list(table.name, target.scope.window)}
        for partition, files in TableState(self.runtime).outputs(target).items():
            recorded = files in ("", known.get(partition), shadow.odd.get(table.name, {}).get(target.name(partition)))
            if not recorded:
                changed.setdefault(target.name(partition), "by hand")
        if changed:
            name, by = next(iter(changed.items()))
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise UsageError(
                f"{table.name}, {name}{more} changed after the shadow began ({by})",
                unchanged="nothing was swapped for this table",
                next_step=f"twice backfill drop {self.info.id} and build it again; or twice backfill swap "
                f"{self.info.id} --force puts the shadow over it",
            )


def _nothing() -> None:
    """Check nothing again."""


def _shadow(info: BackfillInfo) -> Shadow:
    if info.shadow is None and info.request.get("shadow"):
        raise UsageError(
            f"the shadow of backfill {info.id} has not begun",
            unchanged="nothing was changed",
            next_step=f"twice backfill resume {info.id}, or twice backfill cancel {info.id}",
        )
    if info.shadow is None:
        raise UsageError(
            f"backfill {info.id} has no shadow: it works on the tables themselves",
            next_step="start one with twice backfill … --shadow",
        )
    return info.shadow


def require_comparable(info: BackfillInfo) -> None:
    """Refuse to compare a shadow that no longer exists."""
    if (state := _shadow(info).state) in ("swapped", "dropping", "dropped"):
        raise UsageError(f"the shadow of backfill {info.id} is {state}: nothing to compare")


def require_droppable(info: BackfillInfo, *, force: bool = False) -> None:
    """Refuse to drop a shadow that a process works on, that no longer exists, or that is partly swapped in."""
    shadow = _shadow(info)
    if shadow.removed:
        raise UsageError(f"the shadow of backfill {info.id} is already {shadow.state}", unchanged="nothing was changed")
    if info.workers:
        raise UsageError(
            f"backfill {info.id} is at work on {info.workers[0]}",
            unchanged="nothing was dropped",
            next_step="wait for its swap" if shadow.state == "swapping" else f"twice backfill cancel {info.id}",
        )
    if shadow.state == "swapping" and shadow.shown and not force:
        raise UsageError(
            f"the shadow of backfill {info.id} is partly swapped: {len(shadow.swapped)} of {len(shadow.tables)} "
            "tables show the new rows",
            unchanged="nothing was dropped",
            next_step=f"twice backfill swap {info.id} completes it; twice backfill drop {info.id} --force gives up the "
            "rest, and leaves each table as it is",
        )


def require_finished(info: BackfillInfo) -> None:
    """Refuse to swap in a shadow that is not built, or no longer exists."""
    shadow = _shadow(info)
    if shadow.removed or shadow.state in ("dropping", "dropped"):
        raise UsageError(f"the shadow of backfill {info.id} is already {shadow.state}", unchanged="nothing was changed")
    if info.status != "done":
        more = " --restart" if info.status == "partly" else ""
        drop = f"twice backfill drop {info.id}"
        raise UsageError(
            f"the shadow of backfill {info.id} is not finished: it is {info.status}",
            unchanged="nothing was swapped",
            next_step=drop if info.status == "cancelled" else f"twice backfill resume {info.id}{more}; or {drop}",
        )


def _difference(runtime: Runtime, wanted: Swap) -> TableDifference:
    task = task_of(runtime, wanted.pipeline, wanted.planned, f"diff-{wanted.step.name}")
    table, store, target = wanted.step.writes, task.store, task.target
    there = store.exists(task.session, wanted.shadow)
    if not there or superseded(runtime, wanted):
        return TableDifference(wanted.step.name, table.name, {}, len(target.partitions))
    try:
        new = store.read(task.session, wanted.shadow, store.version(task.session, wanted.shadow))
        version = store.version(task.session, table) if store.exists(task.session, table) else None
        old = store.read(task.session, table, version) if version is not None else new.limit(0)
        shadow_target = replace(target, table=wanted.shadow)
        found = difference(
            old.where(scope_filter(target)),
            new.where(scope_filter(shadow_target)),
            partition=table.partition_columns,
            key=table.key,
        )
    finally:
        task.stores.release(task.session)
    named = {target.name(partition): each for partition, each in by_partition(target, found).items()}
    differing = {name: each for name, each in named.items() if not each.same}
    return TableDifference(wanted.step.name, table.name, differing, len(target.partitions) - len(differing))
