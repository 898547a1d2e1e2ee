"""Maintenance that a rerun does not notice: leftovers, small files, old snapshots, orphans.

The table is claimed as a whole first, so no run is at work in it; abandoned claims are settled
before the snapshots that prove them may expire; what is compacted is recorded again, so that
nothing looks changed by hand afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.engine.attempt.heartbeat import Heartbeat
from twice.engine.spark.session import fresh
from twice.errors import ScopeHeld
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.protocol import Maintaining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.ledger import Ledger, Output, StreamInfo
    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table


@dataclass
class TableMaintenance:
    """What was done to one table, or would be."""

    table: str
    branches_dropped: int = 0
    files_compacted: int = 0
    snapshots_expired: int = 0
    files_removed: int = 0
    remarks: list[str] = field(default_factory=list)
    dry_run: bool = False

    @property
    def text(self) -> str:
        """The result in words."""
        would = "would drop" if self.dry_run else "dropped"
        done = (
            f"{self.table}: {would} {self.branches_dropped} leftover branches, {self.files_compacted} files compacted, "
            f"{self.snapshots_expired} snapshots expired, {self.files_removed} files removed"
        )
        return "; ".join([done, *self.remarks])

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return dict(self.__dict__)


def maintain(
    runtime: Runtime,
    pipelines: Sequence[Pipeline],
    *,
    keep: timedelta,
    tables: Sequence[str] | None = None,
    compact: bool = True,
    dry_run: bool = False,
) -> list[TableMaintenance]:
    """Maintain every table that the pipelines write; `keep` is how far back `twice undo` still reaches."""
    return [
        _maintain(runtime, pipeline, table, keep, compact=compact, dry_run=dry_run)
        for pipeline in pipelines
        for table in pipeline.written()
        if tables is None or table.name in tables
    ]


def _maintain(
    runtime: Runtime, pipeline: Pipeline, table: Table, keep: timedelta, *, compact: bool, dry_run: bool
) -> TableMaintenance:
    result = TableMaintenance(table.name, dry_run=dry_run)
    session = fresh(runtime.spark, "UTC")
    store, ledger = runtime.stores.of(table), runtime.ledger
    if not store.exists(session, table):
        result.remarks.append("it does not exist yet")
        return result
    if dry_run:
        held = {lease.token for lease in ledger.leases.list() if lease.table == table.name and lease.state == "live"}
        result.branches_dropped = len(set(store.staged_tokens(session, table)) - held)
        return result
    try:
        claim = ledger.leases.claim(table.name, [Scope(None)], ttl=runtime.lease, floor=store.token(session, table))
    except ScopeHeld as held:
        result.remarks.append(f"left alone: {held.message}")
        return result
    try:
        with Heartbeat(ledger, claim, runtime.lease, on_lost=runtime.spark.sparkContext.cancelAllJobs):
            for abandoned in claim.abandoned:
                landed = store.fence(session, table, abandoned.token)
                ledger.leases.settle(abandoned, landed=landed is not None, version=landed)
            leftovers = [token for token in store.staged_tokens(session, table) if token != claim.token]
            for token in leftovers:
                store.fence(session, table, token)
            result.branches_dropped = len(leftovers)
            if isinstance(store, Maintaining):
                if compact:
                    result.files_compacted = _compact(runtime, session, pipeline, table, store)
                _expire(runtime, session, table, store, keep, result)
    finally:
        ledger.leases.release(claim)
    return result


def _compact(
    runtime: Runtime, session: SparkSession, pipeline: Pipeline, table: Table, maintaining: Maintaining
) -> int:
    store, ledger = runtime.stores.of(table), runtime.ledger
    outputs = ledger.outputs.list(table.name)
    before = _files(runtime, session, pipeline, table, outputs)
    rewritten = maintaining.compact(session, table)
    if rewritten:
        after = _files(runtime, session, pipeline, table, outputs)
        same = {output.scope for output in outputs if output.files == before.get(output.scope)}
        files = {scope: fingerprint for scope, fingerprint in after.items() if scope in same}
        ledger.outputs.rerecord(table.name, files, store.version(session, table))
    return rewritten


def _files(
    runtime: Runtime, session: SparkSession, pipeline: Pipeline, table: Table, outputs: Sequence[Output]
) -> Mapping[Scope, str]:
    """Fingerprint the files of every recorded partition, with one read per combination of dimension values."""
    store = runtime.stores.of(table)
    version = store.version(session, table)
    found: dict[Scope, str] = {}
    for dimensions in {output.scope.dimensions for output in outputs}:
        scopes = tuple(output.scope for output in outputs if output.scope.dimensions == dimensions)
        windows = [scope.window for scope in scopes if scope.window is not None]
        hull = Window(min(w.start for w in windows), max(w.end for w in windows)) if windows else None
        target = Target(table, Scope(hull, dimensions), scopes, pipeline.zone)
        found.update(store.files(session, target, version))
    return found


def _expire(
    runtime: Runtime,
    session: SparkSession,
    table: Table,
    store: Maintaining,
    keep: timedelta,
    result: TableMaintenance,
) -> None:
    ledger = runtime.ledger
    for lease in ledger.leases.list():
        if lease.state != "live" or lease.run is None:
            continue
        for attempt in ledger.runs.get(lease.run).attempts:
            if attempt.status == "running" and any(record.table == table.name for record in attempt.inputs):
                result.remarks.append(f"snapshots kept: run {lease.run} is reading it")
                return
    before = store.count_versions(session, table)
    now = ledger.clock.now()
    oldest = now - keep
    for reader in ledger.streams.readers(table.name):
        name, version = f"{reader.pipeline}.{reader.stream}", _read_until(ledger, reader, store)
        if version is None:
            result.remarks.append(f"snapshots kept: the stream {name} has begun to read it")
            return
        needed = store.committed_at(session, table, version)
        if needed is not None and needed < oldest:
            oldest = needed
            result.remarks.append(f"snapshots kept from {needed:%Y-%m-%d %H:%M} on: the stream {name} reads it")
    result.files_removed = store.expire(session, table, oldest)
    result.snapshots_expired = before - store.count_versions(session, table)
    result.files_removed += store.remove_orphans(session, table, now)


def _read_until(ledger: Ledger, reader: StreamInfo, store: Maintaining) -> str | None:
    """Return the version from which a stream may read again: where the batch before its newest one ended."""
    known = ledger.streams.batches.list(reader.pipeline, reader.stream, query=reader.query, limit=2)
    return store.version_read(known[1].offsets) if len(known) == 2 else None
