"""The row of `type = "sql"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.store import jdbc_drivers
from twice.store.store_type import Jars, LocalStore, StoreType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import StoreConfig
    from twice.store.protocol import Source


def _open(store: StoreConfig, root: Path) -> Source:
    from twice.store.sql.database import open_database
    from twice.store.sql.store import SqlStore

    return SqlStore(open_database(store, root))


def _probe(_session: SparkSession, store: StoreConfig, root: Path) -> str:
    from twice.store.sql.database import open_database

    with open_database(store, root).look():
        return ""


SQL = StoreType(
    "sql",
    keys=("url",),
    open=_open,
    places={"url": ""},
    jars=Jars(
        lambda store, _spark: jdbc_drivers.driver_of(store.options.get("url", "")),
        every=jdbc_drivers.EVERY,
        complete=jdbc_drivers.COMPLETE,
    ),
    transient_errors=jdbc_drivers.TRANSIENT_ERRORS,
    probe=_probe,
    # SQLite has one namespace, and cannot take the place of a server.
    local=LocalStore(
        {"url": "sqlite:///{folder}/{name}.db"},
        known_as="sqlite",
        one_namespace=True,
        stands_for=lambda store: store.options.get("url", "").startswith("sqlite"),
    ),
)
