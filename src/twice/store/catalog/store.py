"""Tables and views of a Spark catalog as a source without versions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.errors import StoreRefused
from twice.model.content import INCOMPARABLE
from twice.model.names import quote
from twice.store.protocol import UNVERSIONED, Abilities

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession

    from twice.config import StoreConfig
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window

_BETTER = ("iceberg", "delta")


class CatalogSource:
    """Tables of one Spark catalog, by default the session's own."""

    abilities = Abilities(
        "catalog",
        writes=(),
        pins=False,
        history=False,
        instead='write to a store of type "iceberg", "delta", "parquet" or "sql"',
    )

    def __init__(self, config: StoreConfig) -> None:
        self._catalog = config.options.get("catalog", "spark_catalog")

    def name(self, table: Table) -> str:
        """Return the table's name in Spark, quoted."""
        return ".".join(quote(part) for part in (self._catalog, *table.id.parts[1:]))

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the catalog has such a table or view."""
        return session.catalog.tableExists(self.name(table))

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return an unknown version: a catalog table has none."""
        return UNVERSIONED if self.exists(session, table) else None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read what the table holds now."""
        self._refuse_better(session, table)
        rows = session.table(self.name(table))
        return rows.where(F.lit(False)) if version is None else rows

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:  # noqa: ARG002
        """Return an unknown fingerprint for each partition, which never comes twice: no record equals it."""
        return {partition: f"{INCOMPARABLE}{uuid.uuid4().hex}" for partition in target.partitions}

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Return that the source has no fingerprint."""
        return None

    def release(self, session: SparkSession) -> None:
        """Hold nothing."""

    def _refuse_better(self, session: SparkSession, table: Table) -> None:
        """Refuse a table whose own store can pin versions: here it would lose that silently."""
        described = session.sql(f"DESCRIBE TABLE EXTENDED {self.name(table)}").collect()
        provider = next((str(row[1]).lower() for row in described if str(row[0]).strip() == "Provider"), "")
        if provider in _BETTER:
            raise StoreRefused(
                f"{table.name} is a table of {provider.capitalize()}, which can be read at a version; "
                "a catalog store would read whatever is there",
                unchanged="nothing was changed",
                next_step=f'declare its store with type = "{provider}"',
            )
