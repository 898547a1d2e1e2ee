"""Iceberg's own maintenance: small files, old snapshots, files that nothing refers to."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from twice.content.java import items_of
from twice.model.names import quote, quote_text
from twice.store.iceberg import jvm

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from twice.model.tables import Table

# Iceberg refuses to look for orphans among files younger than a day: a writer may not have committed them yet.
_ORPHAN_AGE = timedelta(days=3)


def compact(session: SparkSession, table: Table) -> int:
    """Rewrite small files into large ones; return how many were rewritten."""
    row = _call(session, table, "rewrite_data_files", "options => map('min-input-files', '2')")
    return int(row["rewritten_data_files_count"])


def expire(session: SparkSession, table: Table, older_than: datetime) -> int:
    """Expire snapshots that are no longer needed; return how many files went with them."""
    row = _call(session, table, "expire_snapshots", f"older_than => {_timestamp(older_than)}", "retain_last => 1")
    return sum(int(row[name] or 0) for name in row.asDict() if name.endswith("files_count"))


def version_read(offsets: str) -> str | None:
    """Return the snapshot in the last line of a stream's offsets."""
    offset = json.loads(offsets.splitlines()[-1])
    return str(offset["snapshot_id"]) if "snapshot_id" in offset else None


def committed_at(session: SparkSession, table: Table, version: str) -> datetime | None:
    """Return when a snapshot was committed; None if it does not exist."""
    live = jvm.load(session, table.id)
    found = live.snapshot(int(version)) if live is not None else None
    return datetime.fromtimestamp(found.timestampMillis() / 1000, timezone.utc) if found is not None else None


def snapshots(session: SparkSession, table: Table) -> int:
    """Count the table's snapshots."""
    live = jvm.load(session, table.id)
    return sum(1 for _ in items_of(live.snapshots())) if live is not None else 0


def remove_orphans(session: SparkSession, table: Table, now: datetime) -> int:
    """Remove files below the table's folder that no snapshot refers to; return how many."""
    procedure = _procedure(table, "remove_orphan_files", f"older_than => {_timestamp(now - _ORPHAN_AGE)}")
    return session.sql(procedure).count()


def _call(session: SparkSession, table: Table, procedure: str, *arguments: str) -> Row:
    rows = session.sql(_procedure(table, procedure, *arguments)).collect()
    return rows[0]


def _procedure(table: Table, procedure: str, *arguments: str) -> str:
    # Names and values are quoted by functions that are property-tested.
    everything = ", ".join([f"table => {quote_text(table.id.sql)}", *arguments])
    return f"CALL {quote(table.id.store)}.system.{procedure}({everything})"


def _timestamp(instant: datetime) -> str:
    return f"TIMESTAMP {quote_text(instant.isoformat(sep=' ', timespec='microseconds'))}"
