"""From a table's name to the store that keeps it, and from a store's type to what Spark needs for it.

Each type has its package below `twice.store`; its modules are imported when a configuration names the type.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from twice.errors import StoreRefused, TwiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from twice.config import Config, StoreConfig
    from twice.model.tables import Table
    from twice.store.protocol import Source, Store


class Stores:
    """The stores of a configuration, opened once; the threads of a backfill share them."""

    def __init__(self, config: Config, *, opened: Mapping[str, Source] | None = None) -> None:
        self._config = config
        self._lock = threading.Lock()
        # `opened` are places that no configuration names.
        self._open: dict[str, Source] = dict(opened or {})

    def source(self, table: Table) -> Source:
        """Return the place that a table is read from."""
        name = table.id.store
        with self._lock:  # a store keeps what its stages share: two of them would not know of each other
            if name not in self._open:
                self._open[name] = open_store(self._config.store(name), self._config.root)
            return self._open[name]

    def of(self, table: Table) -> Store:
        """Return the store that a table is written to."""
        found = self.source(table)
        found.abilities.require(table)
        if not found.abilities.writes:
            raise StoreRefused(f"{table.name}: a {found.abilities.kind} store is only read")
        return cast("Store", found)

    def start_catalogs(self, session: SparkSession, tables: Iterable[Table]) -> None:
        """Start the catalogs of some tables before threads use them: the first start creates what the next ones find.

        A catalog that does not start is reported by the run that uses it.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        for name in dict.fromkeys(table.id.store for table in tables):
            if self._config.store(name).type == "iceberg":
                from twice.store.iceberg import jvm

                with suppress(TwiceError, Py4JError, PySparkException):
                    jvm.start_catalog(session, name)

    def release(self, session: SparkSession) -> None:
        """Let go of what the reads of an attempt held open."""
        with self._lock:
            opened = list(self._open.values())
        for store in opened:
            store.release(session)


def open_store(store: StoreConfig, root: Path) -> Source:
    """Open one store by its type."""
    if store.type == "iceberg":
        from twice.store.iceberg import IcebergStore
        from twice.store.iceberg.catalog import CatalogDatabase

        return IcebergStore(CatalogDatabase.of(store, root))
    if store.type == "delta":
        from twice.store.delta import DeltaStore
        from twice.store.delta.settings import read_settings as read_delta_settings

        return DeltaStore(read_delta_settings(store, root))
    if store.type == "sql":
        from twice.store.sql import SqlStore, open_database

        return SqlStore(open_database(store, root))
    if store.type == "files":
        from twice.store.files import FilesSource
        from twice.store.files.settings import read_settings

        return FilesSource(read_settings(store, root))
    if store.type == "catalog":
        from twice.store.catalog import CatalogSource

        return CatalogSource(store)
    if store.type == "parquet":
        from twice.store.parquet.store import ParquetStore

        return ParquetStore(store, root)
    raise AssertionError(f"no store of type {store.type}")  # the configuration knows the types


def spark_settings(stores: Iterable[StoreConfig], root: Path) -> dict[str, str]:
    """Return the Spark settings that reach the stores."""
    found: dict[str, str] = {}
    extensions: dict[str, None] = {}
    for store in stores:
        if store.type == "iceberg":
            from twice.store.iceberg import settings

            found |= settings.spark_settings(store, root)
            extensions[settings.EXTENSIONS] = None
        if store.type == "delta":
            from twice.store.delta import settings as delta_settings

            found |= delta_settings.spark_settings(store, root)
            extensions[delta_settings.EXTENSIONS] = None
    if extensions:
        found["spark.sql.extensions"] = ",".join(extensions)
    return found
