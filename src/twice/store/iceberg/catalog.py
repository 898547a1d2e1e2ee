"""The database of a JDBC catalog: what is dropped only if it has not changed, and what is looked up without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.store.iceberg.settings import DEFAULT_CATALOG, catalog_file

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.model.names import TableName

_WAIT_SECONDS = 30.0
_CONNECT_SECONDS = 10
# Iceberg's own statement to drop a table matches the name alone: it would drop any table of that name.
_FORGET = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :space "
    "AND table_name = :name AND metadata_location = :metadata"
)


_FIND = sa.text(
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :space "
    "AND table_name = :name"
)


@dataclass(frozen=True)
class CatalogDatabase:
    """Where a catalog keeps its tables."""

    name: str
    url: sa.URL

    @classmethod
    def of(cls, store: StoreConfig, root: Path) -> CatalogDatabase | None:
        """Return the database of a catalog that twice configures; None for a catalog of the cluster's own."""
        catalog = store.options.get("catalog", DEFAULT_CATALOG)
        if catalog == "spark":
            return None
        if catalog.startswith("sqlite:///"):
            return cls(store.name, sa.URL.create("sqlite", database=str(catalog_file(catalog, root))))
        return cls(store.name, sa.make_url(catalog).set(drivername="postgresql+psycopg"))

    def forget(self, table: TableName, metadata: str) -> bool:
        """Take a table out of the catalog if its metadata is still this file; False if it stays."""
        try:
            with self._engine().begin() as connection:
                return connection.execute(_FORGET, {**self._where(table), "metadata": metadata}).rowcount == 1
        except (ImportError, sa.exc.DBAPIError):  # no driver, or the database refused: an empty table is harmless
            return False

    def location(self, table: TableName) -> str | None:
        """Return the newest metadata file of a table; None without such a table, or if the catalog cannot be read."""
        if self.url.get_backend_name() == "sqlite" and not Path(str(self.url.database)).is_file():
            return None  # connecting would create the file
        try:
            with self._engine().connect() as connection:
                found = connection.execute(_FIND, self._where(table)).scalar_one_or_none()
        except (ImportError, sa.exc.DBAPIError):
            return None
        return str(found) if found else None

    def _engine(self) -> sa.Engine:
        is_file = self.url.get_backend_name() == "sqlite"
        wait = {"timeout": _WAIT_SECONDS} if is_file else {"connect_timeout": _CONNECT_SECONDS}
        return sa.create_engine(self.url, poolclass=sa.pool.NullPool, connect_args=wait)

    def _where(self, table: TableName) -> dict[str, str]:
        return {"catalog": self.name, "space": ".".join(table.namespace), "name": table.parts[-1]}
