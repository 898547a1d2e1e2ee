"""A SQL database under test, written to without Spark: rows go into the staging table by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from pyspark.sql import types as T

from twice import Day, Overwrite, Table
from twice.config import StoreConfig
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.sql.database import open_database
from twice.store.sql.schema import conditions, tables
from twice.store.sql.write import publishing, staging
from twice.store.staged import Publication

if TYPE_CHECKING:
    from twice.store.sql.database import Database
    from twice.store.sql.write.staging import SqlStagedRows

UTC = ZoneInfo("UTC")


def columns(**kinds: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


COLUMNS = columns(d=T.DateType(), id=T.LongType(), name=T.StringType())
FIRST, SECOND = date(2026, 4, 25), date(2026, 4, 26)


@dataclass
class SqlDatabase:
    """One database, with the namespace that its tables live in."""

    database: Database
    space: str

    def table(self, name: str = "mart", **contract: Any) -> Table:
        contract = {"partition": Day("d"), "key": ["id"], "write": Overwrite()} | contract
        return Table(f"serving.`{self.space}`.`{name}`", **contract)

    def staged(
        self, table: Table, token: int, rows: list[tuple[object, ...]], *, days: int = 2, schema: T.StructType = COLUMNS
    ) -> SqlStagedRows:
        """Open a claim and put rows into its stage."""
        staged = self.opened(table, token, days=days, schema=schema)
        self.fill(staged, rows)
        return staged

    def opened(self, table: Table, token: int, *, days: int = 2, schema: T.StructType = COLUMNS) -> SqlStagedRows:
        tables.prepare(self.database, table, schema)
        staged = staging.open_staging(self.database, two_days(table, days), token)
        staged.schema = schema
        return staged

    def fill(self, staged: SqlStagedRows, rows: list[tuple[object, ...]]) -> None:
        made = staging.stage_table(self.database, staged)
        columns = [conditions.column(made, name) for name in staged.schema.names]
        with self.database.settled() as connection:
            for row in rows:
                values = [conditions.encoded(value, self.database.dialect) for value in row]
                connection.execute(made.insert().values(dict(zip(columns, map(sa.literal, values), strict=True))))
        staging.look(self.database, staged)

    def publish(self, staged: SqlStagedRows, partitions: Any = None, remember: Any = None) -> str:
        chosen = staged.target.partitions if partitions is None else partitions
        return publishing.publish(self.database, Publication(staged, chosen, {}, remember or {}))

    def rows(self, table: Table, columns: str = "*") -> list[tuple[object, ...]]:
        found = self.sql(f"select {columns} from {self.database.relation(table.id)}")
        return sorted(found, key=str)

    def sql(self, statement: str, values: Any = ()) -> list[tuple[object, ...]]:
        """Run a statement as somebody else would."""
        with self.database.engine.connect() as connection:
            connection.execution_options(twice_write=True)
            with connection.begin():
                if values:
                    found = connection.exec_driver_sql(statement, values)
                else:
                    found = connection.execution_options(no_parameters=True).exec_driver_sql(statement)
                return [tuple(map(_plain, row)) for row in found] if found.returns_rows else []

    def left(self) -> list[str]:
        """List the staging tables that are there."""
        with self.database.look() as connection:
            names = sa.inspect(connection).get_table_names(
                schema=None if self.database.dialect == "sqlite" else self.space
            )
        return sorted(name for name in names if name.startswith("twice_stage_"))


def two_days(table: Table, days: int = 2) -> Target:
    window = Window(datetime(2026, 4, 25, tzinfo=timezone.utc), datetime(2026, 4, 25 + days, tzinfo=timezone.utc))
    return Target.of(table, Scope(window), UTC)


def sqlite_place(folder: Path) -> SqlDatabase:
    database = open_database(StoreConfig("serving", "sql", {"url": "sqlite:///serving.db"}), folder)
    return SqlDatabase(database, "main")


def postgres_place(url: str, *, other: bool = False) -> SqlDatabase:
    """Reach a Postgres database; `other`: as one that the store knows nothing special about."""
    database = open_database(StoreConfig("serving", "sql", {"url": url}), Path())
    if other:
        database.dialect = "other"
    return SqlDatabase(database, "public")


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else value
