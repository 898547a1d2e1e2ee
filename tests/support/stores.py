"""The places that the contract tests and the crash matrix write to, as people outside of twice see them.

Each says how the store is declared, where a table lies, and how somebody who does not use twice reads it,
edits it by hand and finds what was left over.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from twice import Table
from twice.model.names import TableName, quote
from twice.store.delta.locations import folder as delta_folder
from twice.store.iceberg import jvm
from twice.store.parquet import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

OWN_URL = "TWICE_CONTRACT_URL"
Look = tuple[int, Decimal]


class Place:
    """One store, and a namespace of its own in it."""

    kind: ClassVar[str]
    store: ClassVar[str]
    reads_whole: ClassVar[bool] = True  # an outsider never sees a table between two versions

    def __init__(self, spark: SparkSession, folder: Path, space: str) -> None:
        self.spark, self.folder, self.space = spark, folder, space
        self._made: list[str] = []

    def toml(self) -> str:
        """Return the section of twice.toml that declares the store."""
        raise AssertionError(f"{self.kind} says nothing")

    def name(self, table: str) -> str:
        """Return a table's full name."""
        if table not in self._made:
            self._made.append(table)
        return str(TableName((self.store, self.space, table)))

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Read some columns of all rows, past twice, in a stable order."""
        raise AssertionError(f"{self.kind} cannot be read")

    def edit(self, table: str, number: int, **changed: object) -> None:
        """Change a row by hand, the one with that id."""
        raise AssertionError(f"{self.kind} cannot be edited")

    def delete(self, table: str, number: int) -> None:
        """Delete a row by hand."""
        raise AssertionError(f"{self.kind} cannot be edited")

    def versions(self, table: str) -> object:
        """Return what changes with every commit to the table, and with nothing else."""
        raise AssertionError(f"{self.kind} has no versions")

    def commits(self, table: str) -> int:
        """Count the versions that readers have seen."""
        raise AssertionError(f"{self.kind} has no versions")

    def look(self, table: str, day: str) -> Look:
        """Read a day as a reader does, in one read: how many rows, and their sum."""
        values = [Decimal(str(row[0])) for row in self.rows(table, "v", where={"d": day})]
        return len(values), sum(values, Decimal(0))

    def leftovers(self, table: str) -> list[str]:
        """List stages and journals that are still there."""
        raise AssertionError(f"{self.kind} hides its leftovers")

    def everything(self) -> object:
        """Return all that the store keeps of the tests' tables and of what lies beside them."""
        raise AssertionError(f"{self.kind} cannot be looked at")

    def close(self) -> None:
        """Leave nothing behind."""


class Iceberg(Place):
    """A namespace of the catalog that all tests share."""

    kind, store = "iceberg", "lake"

    def __init__(self, spark: SparkSession, folder: Path, space: str) -> None:
        super().__init__(spark, folder, space)
        spark.sql(f"create namespace if not exists lake.{space}")

    def toml(self) -> str:
        return ""  # every test's configuration has it

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        return _collected(self.spark.newSession().table(self._sql(table)), columns, where)

    def edit(self, table: str, number: int, **changed: object) -> None:
        self.spark.sql(f"update {self._sql(table)} set {_assignments(changed)} where id = {number}")

    def delete(self, table: str, number: int) -> None:
        self.spark.sql(f"delete from {self._sql(table)} where id = {number}")

    def versions(self, table: str) -> list[int]:
        return [entry.snapshotId() for entry in self._live(table).history()]

    def commits(self, table: str) -> int:
        return len(self.versions(table))

    def look(self, table: str, day: str) -> Look:
        return _looked(self.spark, self._sql(table), day)

    def leftovers(self, table: str) -> list[str]:
        return sorted(str(name) for name in self._live(table).refs().keySet() if str(name) != "main")

    def everything(self) -> object:
        found = {}
        for row in self.spark.sql(f"show tables in lake.{quote(self.space)}").collect():
            live = jvm.load(self.spark, Table(str(TableName((self.store, self.space, row["tableName"])))).id)
            columns = [str(column.name()) for column in live.schema().columns()]
            refs = sorted(str(name) for name in live.refs().keySet())
            properties = sorted(str(name) for name in live.properties().keySet())
            snapshots = sorted(each.snapshotId() for each in live.snapshots())
            # Every commit to a branch writes the table's metadata again: that is Iceberg's own history, not ours.
            files = _below(Path(str(live.location()).removeprefix("file:")))
            kept = [name for name in files if not name.endswith((".metadata.json", ".metadata.json.crc"))]
            found[row["tableName"]] = columns, refs, properties, snapshots, kept
        found[""] = [name for name in _below(self._warehouse()) if name.split("/")[0] not in found]
        return found

    def _warehouse(self) -> Path:
        return Path(self.spark.conf.get("spark.sql.catalog.lake.warehouse")) / self.space

    def _sql(self, table: str) -> str:
        return Table(self.name(table)).id.sql

    def _live(self, table: str) -> Any:
        return jvm.load(self.spark, Table(self.name(table)).id)


class Delta(Place):
    """A folder of Delta tables."""

    kind, store = "delta", "dust"

    def toml(self) -> str:
        return f'[stores.{self.store}]\ntype = "delta"\npath = "{self.folder / "delta"}"\n'

    def path(self, table: str) -> Path:
        return self.folder / "delta" / self.space / delta_folder(table)

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        return _collected(self.spark.newSession().read.format("delta").load(str(self.path(table))), columns, where)

    def edit(self, table: str, number: int, **changed: object) -> None:
        self.spark.sql(f"update {self._sql(table)} set {_assignments(changed)} where id = {number}")

    def delete(self, table: str, number: int) -> None:
        self.spark.sql(f"delete from {self._sql(table)} where id = {number}")

    def versions(self, table: str) -> list[str]:
        """Return the commits that touched data: claims and fences are commits too, without any."""
        log = self.path(table) / "_delta_log"
        return sorted(file.name for file in log.glob("*.json") if _moves_data(file))

    def commits(self, table: str) -> int:
        return len(self.versions(table))

    def look(self, table: str, day: str) -> Look:
        return _looked(self.spark, self._sql(table), day)

    def leftovers(self, table: str) -> list[str]:
        return _below(self.path(table) / "_twice")

    def everything(self) -> object:
        return _below(self.folder / "delta")

    def _sql(self, table: str) -> str:
        return f"delta.{quote(str(self.path(table)))}"


class Parquet(Place):
    """A folder of Parquet folders."""

    kind, store = "parquet", "plain"
    reads_whole = False

    def toml(self) -> str:
        return f'[stores.{self.store}]\ntype = "parquet"\npath = "{self.folder / "plain"}"\n'

    def path(self, table: str) -> Path:
        return self.folder / "plain" / self.space / names.folder_name(table)

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        if not self._files(table):
            return []
        found = pa.concat_tables([self._read(table, file) for file in self._files(table)], promote_options="permissive")
        return _chosen(found.to_pylist(), columns, where)

    def edit(self, table: str, number: int, **changed: object) -> None:
        def edited(content: pa.Table) -> pa.Table:
            chosen = pc.equal(content["id"], number)
            for name, value in changed.items():
                place = content.schema.get_field_index(name)
                new = pc.if_else(chosen, pa.scalar(value, content.schema.field(name).type), content[name])
                content = content.set_column(place, content.schema.field(name), new)
            return content

        self._rewrite(table, number, edited)

    def delete(self, table: str, number: int) -> None:
        self._rewrite(table, number, lambda content: content.filter(pc.not_equal(content["id"], number)))

    def versions(self, table: str) -> object:
        return [(str(file), file.stat().st_mtime_ns) for file in self._files(table)]

    def commits(self, table: str) -> int:
        entries = (self._book(table) / "log").iterdir()
        last = max(entries, key=lambda entry: int(entry.name))
        return int(json.loads((last / "entry.json").read_text())["version"])

    def leftovers(self, table: str) -> list[str]:
        parts = ("stage", "aside", "trash", "work")
        return [f"{part}/{name}" for part in parts for name in _below(self._book(table) / part)]

    def everything(self) -> object:
        """Return all files but those of the log, which only grows: its numbers are the fence."""
        return [name for name in _below(self.folder / "plain") if "/log/" not in name]

    def _book(self, table: str) -> Path:
        return self.path(table).parent / "_twice" / names.folder_name(table)

    def _files(self, table: str) -> list[Path]:
        """List the data files, as Spark and Hive see them: what begins with _ or . is not data."""
        root = self.path(table)
        found = [file.relative_to(root) for file in root.rglob("*.parquet")] if root.exists() else []
        return sorted(root / file for file in found if not any(part[0] in "_." for part in file.parts))

    def _read(self, table: str, file: Path) -> pa.Table:
        content = pq.ParquetFile(file).read()
        for part in file.relative_to(self.path(table)).parts[:-1]:
            name, value = names.split(part) or (part, None)
            content = content.append_column(name, pa.array([value] * len(content), pa.string()))
        return content

    def _rewrite(self, table: str, number: int, edited: Callable[[pa.Table], pa.Table]) -> None:
        for file in self._files(table):
            content = pq.ParquetFile(file).read()
            if number in content["id"].to_pylist():
                pq.write_table(edited(content), file, use_deprecated_int96_timestamps=True)  # as Spark writes them
                # The checksum beside the file would no longer be the file's.
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


class Sql(Place):
    """A database behind a URL."""

    kind, store = "sql", "serving"
    url: str

    def __init__(self, spark: SparkSession, folder: Path, space: str) -> None:
        super().__init__(spark, folder, space)
        self.engine = sa.create_engine(self.outside_url(), poolclass=sa.NullPool)

    def outside_url(self) -> str:
        return self.url

    def toml(self) -> str:
        return f'[stores.{self.store}]\ntype = "sql"\nurl = {json.dumps(self.url)}\n'

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        wanted = [*columns, *(name for name in where or {} if name not in columns)]
        target = self._table(table, wanted)
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(*(target.c[name] for name in wanted))).all()
        return _chosen((dict(zip(wanted, row, strict=True)) for row in found), columns, where)

    def edit(self, table: str, number: int, **changed: object) -> None:
        target = self._table(table, {"id", *changed})
        with self.engine.begin() as connection:
            connection.execute(target.update().where(target.c.id == number).values(**changed))

    def delete(self, table: str, number: int) -> None:
        target = self._table(table, {"id"})
        with self.engine.begin() as connection:
            connection.execute(target.delete().where(target.c.id == number))

    def versions(self, table: str) -> Any:
        """Return the counter that every publish raises by one."""
        known = sa.table("twice_tables", sa.column("table_name"), sa.column("version"), schema=self.schema)
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(known.c.table_name, known.c.version)).all()
        return [version for name, version in found if name == table]

    def commits(self, table: str) -> int:
        return int(next(iter(Sql.versions(self, table)), 0))

    def leftovers(self, table: str) -> list[str]:
        names = sa.inspect(self.engine).get_table_names(schema=self.schema)
        return sorted(name for name in names if name.startswith("twice_stage"))

    def everything(self) -> object:
        inspector = sa.inspect(self.engine)
        found: dict[str, list[str]] = {}
        for name in inspector.get_table_names(schema=self.schema):
            columns = [str(column["name"]) for column in inspector.get_columns(name, schema=self.schema)]
            with self.engine.connect() as connection:
                rows = connection.execute(sa.select(*map(sa.column, columns)).select_from(self._table(name, columns)))
                found[name] = sorted(map(str, rows))
        # The bookkeeping tables of a schema stay once they are there.
        return {name: rows for name, rows in found.items() if rows or not name.startswith("twice_")}

    def close(self) -> None:
        self.engine.dispose()

    @property
    def schema(self) -> str | None:
        return self.space

    def _table(self, table: str, columns: Iterable[str]) -> sa.TableClause:
        return sa.table(table, *(sa.column(name) for name in columns), schema=self.schema)


class Sqlite(Sql):
    """A database in a file of its own; its one namespace is main."""

    kind = "sqlite"

    def __init__(self, spark: SparkSession, folder: Path, space: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"sqlite:///{folder / 'serving.db'}"
        super().__init__(spark, folder, "main")


class Postgres(Sql):
    """A schema of its own in a database that the tests share."""

    kind = "postgres"

    def __init__(self, spark: SparkSession, folder: Path, space: str, url: str) -> None:
        self.url = url
        super().__init__(spark, folder, space)
        with self.engine.begin() as connection:
            connection.execute(sa.schema.CreateSchema(space, if_not_exists=True))

    def outside_url(self) -> str:
        return sa.make_url(self.url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)

    def versions(self, table: str) -> Any:
        """Return the transactions that wrote the rows, beside the counter."""
        with self.engine.connect() as connection:
            target = sa.table(table, schema=self.space)
            wrote = sa.select(sa.literal_column("xmin::text")).select_from(target).distinct()
            found = sorted(connection.scalars(wrote)) if self._exists(connection, table) else []
        return super().versions(table), found

    def _exists(self, connection: sa.Connection, table: str) -> bool:
        return sa.inspect(connection).has_table(table, schema=self.space)

    def close(self) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.schema.DropSchema(self.space, cascade=True))
        super().close()


class Own(Sql):
    """The database that TWICE_CONTRACT_URL names: tables of the tests come and go in its default schema."""

    kind = "own"

    def __init__(self, spark: SparkSession, folder: Path, space: str) -> None:
        self.url = os.environ[OWN_URL]
        self._prefix = space
        super().__init__(spark, folder, "main")
        with self.engine.connect() as connection:
            self.space = connection.dialect.default_schema_name or "main"

    def name(self, table: str) -> str:
        return super().name(self.own_name(table))

    def rows(self, table: str, *columns: str, where: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        return super().rows(self.own_name(table), *columns, where=where)

    def edit(self, table: str, number: int, **changed: object) -> None:
        super().edit(self.own_name(table), number, **changed)

    def delete(self, table: str, number: int) -> None:
        super().delete(self.own_name(table), number)

    def versions(self, table: str) -> Any:
        return super().versions(self.own_name(table))

    def commits(self, table: str) -> int:
        return super().commits(self.own_name(table))

    def close(self) -> None:
        with self.engine.begin() as connection:
            for table in self._made:
                sa.Table(table, sa.MetaData(), schema=self.space).drop(connection, checkfirst=True)
        super().close()

    def own_name(self, table: str) -> str:
        return table if table.startswith(self._prefix) else f"{self._prefix}_{table}"


KINDS: dict[str, Callable[[SparkSession, Path, str], Place]] = {
    "iceberg": Iceberg,
    "sqlite": Sqlite,
    "parquet": Parquet,
    "delta": Delta,
    "own": Own,
}


def make(kind: str, spark: SparkSession, folder: Path, space: str, url: str) -> Place:
    """Make a namespace in a store of that kind; `url` names the server's database."""
    return Postgres(spark, folder, space, url) if kind == "postgres" else KINDS[kind](spark, folder, space)


def _collected(rows: Any, columns: Sequence[str], where: Mapping[str, object] | None) -> list[tuple[Any, ...]]:
    for name, value in (where or {}).items():
        rows = rows.where(rows[quote(name)] == value)
    return _sorted(tuple(row) for row in rows.select(*map(quote, columns)).collect())


def _chosen(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], where: Mapping[str, object] | None
) -> list[tuple[Any, ...]]:
    """Cut rows by hand: whatever a store keeps a date as, it reads as the date is written."""
    wanted = (row for row in rows if all(str(row[name]) == str(value) for name, value in (where or {}).items()))
    return _sorted(tuple(row[name] for name in columns) for row in wanted)


def _looked(spark: SparkSession, table: str, day: str) -> Look:
    query = f"select count(*), coalesce(sum(v), 0) from {table} where d = date'{day}'"
    row = spark.newSession().sql(query).first()
    return row[0], row[1]


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])


def _assignments(changed: Mapping[str, object]) -> str:
    return ", ".join(f"{quote(name)} = {value}" for name, value in changed.items())


def _below(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def _moves_data(commit: Path) -> bool:
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    return any(action[kind].get("dataChange") for action in actions for kind in ("add", "remove") if kind in action)
