"""What tables hold at this moment, found out without Spark."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from twice.engine.stores import Stores
from twice.store.protocol import Peeking

if TYPE_CHECKING:
    from collections.abc import Callable

    from twice.config import Config
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window
    from twice.store.protocol import Source

log = logging.getLogger(__name__)

Found = TypeVar("Found")
# With one of these, a path without a scheme may be one of the cluster's file system.
_CLUSTER = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FILE_SYSTEM = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
# A profile's own setting of a catalog takes precedence over the store's.
_CATALOG = "spark.sql.catalog."
# spark-submit has settings of its own.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


class NeedsSpark(Exception):
    """Only Spark can find out what a table holds."""


class PeekedState:
    """The written tables and the inputs as their metadata shows them; each method may raise NeedsSpark."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    @classmethod
    def of(cls, config: Config, tables: Iterable[Table]) -> PeekedState | None:
        """Return what is known of some tables; None where one of them always needs Spark."""
        if any(map(os.environ.get, (*_CLUSTER, _SUBMITTED))):
            return None
        if any(name in _FILE_SYSTEM or name.startswith(_CATALOG) for name in config.spark):
            return None
        stores = Stores(config)
        try:
            known = all(isinstance(stores.source(table), Peeking) for table in tables)
        except Exception:  # without PySpark, or of a store that expects a running Spark
            log.debug("the stores cannot be opened without Spark", exc_info=True)
            return None
        return cls(stores) if known else None

    def check(self, table: Table) -> None:
        """Raise NeedsSpark unless it is certain that a run could write a table as it is."""
        self._ask(table, self._stores.of, lambda store: store.peek_check(table) or None)

    def version(self, table: Table) -> str:
        """Return the version that readers see."""
        return self._ask(table, self._stores.source, lambda source: source.peek(table))

    def outputs(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition of a written table holds."""
        return self._ask(target.table, self._stores.of, lambda store: store.peek_files(target))

    def files(self, target: Target) -> Mapping[Scope, str]:
        """Fingerprint what each partition of an input holds."""
        return self._ask(target.table, self._stores.source, lambda source: source.peek_files(target))

    def seen(self, table: Table, event: Window, zone: ZoneInfo) -> str:
        """Fingerprint what an input without partitions holds of a window."""
        return self._ask(table, self._stores.source, lambda source: source.peek_seen(table, event, zone))

    def _ask(self, table: Table, find: Callable[[Table], Source], question: Callable[[Peeking], Found | None]) -> Found:
        try:
            source = find(table)
            found = question(source) if isinstance(source, Peeking) else None
        except Exception as error:  # what files of other writers hold cannot be foreseen; Spark reports what is wrong
            log.debug("%s cannot be looked at without Spark", table.name, exc_info=True)
            raise NeedsSpark(table.name) from error
        if found is None:
            raise NeedsSpark(table.name)
        return found
