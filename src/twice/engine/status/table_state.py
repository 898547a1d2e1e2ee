"""What tables hold at this moment, asked from their stores: metadata only, no Spark job."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from twice.engine.spark.session import fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.protocol import Source


class TableState:
    """The written tables and the inputs, as `status` asks for them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._sessions: dict[str, SparkSession] = {}

    def outputs(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition of a written table holds."""
        return self._ask(self._runtime.stores.of(target.table), target)

    def files(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition of an input holds."""
        return self._ask(self._runtime.stores.source(target.table), target)

    def seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what an input without partitions holds of a window; None: the source has no fingerprint."""
        source, session = self._runtime.stores.source(table), self._session(zone)
        try:
            return source.seen(session, table, event, zone) if source.exists(session, table) else None
        finally:
            source.release(session)

    def _ask(self, source: Source, target: Target) -> Mapping[Scope, str]:
        session = self._session(target.zone)
        try:
            if not source.exists(session, target.table):
                return dict.fromkeys(target.partitions, "")
            return source.files(session, target, source.version(session, target.table))
        finally:
            source.release(session)

    def _session(self, zone: ZoneInfo) -> SparkSession:
        """Return a session whose clock shows a pipeline's time, as its runs have."""
        with self._lock:
            if zone.key not in self._sessions:
                self._sessions[zone.key] = fresh(self._runtime.spark, zone.key)
            return self._sessions[zone.key]
