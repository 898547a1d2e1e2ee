"""From a table's name to the store that keeps it, and from a store's type to what Spark needs for it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from twice.errors import StoreRefused, TwiceError
from twice.store.registry import store_type

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
        with self._lock:  # a store keeps state that its claims share, so it is opened once
            if name not in self._open:
                self._open[name] = open_store(self._config.store(name), self._config.root)
            return self._open[name]

    def of(self, table: Table) -> Store:
        """Return the store that a table is written to."""
        found = self.source(table)
        found.abilities.require(table)
        if not found.abilities.writes:
            raise StoreRefused(f"{table.name}: a {found.abilities.kind} store is read-only")
        return cast("Store", found)

    def start_catalogs(self, session: SparkSession, tables: Iterable[Table]) -> None:
        """Start the catalogs of some tables before threads use them: the first start creates what the next ones find.

        A catalog that does not start is reported by the run that uses it.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        for name in dict.fromkeys(table.id.store for table in tables):
            start = store_type(self._config.store(name).type).start_catalog
            if start is not None:
                with suppress(TwiceError, Py4JError, PySparkException):
                    start(session, name)

    def release(self, session: SparkSession) -> None:
        """Release what the reads of an attempt held open."""
        with self._lock:
            opened = list(self._open.values())
        for store in opened:
            store.release(session)


def open_store(store: StoreConfig, root: Path) -> Source:
    """Open one store by its type."""
    return store_type(store.type).open(store, root)


def spark_settings(stores: Iterable[StoreConfig], root: Path) -> dict[str, str]:
    """Return the Spark settings that reach the stores."""
    found: dict[str, str] = {}
    extensions: dict[str, None] = {}
    for store in stores:
        row = store_type(store.type)
        found |= row.spark_settings(store, root)
        if row.extensions:
            extensions[row.extensions] = None
    if extensions:
        found["spark.sql.extensions"] = ",".join(extensions)
    return found
