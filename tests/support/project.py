"""A project of a test: its configuration, its ledger, and a namespace of its own on the Spark of the test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice import Day, Table
from twice import config as configuration
from twice.api import run
from twice.engine.run import Runtime
from twice.engine.stores import Stores
from twice.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from twice.engine.run import RunResult
    from twice.ledger import Output
    from twice.model.pipelines import Pipeline

TOML = """
[ledger]
url = "sqlite:///{folder}/ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
# Nobody connects to it: it brings the driver of Postgres into Spark.
[stores.server]
type = "sql"
url = "postgresql://127.0.0.1/none"
[stores.warehouse]
type = "delta"
path = "delta"
[lease]
seconds = {lease}
[pools.slow]
weight = 1
[pools.production]
weight = 4
[profiles.default.spark]
{spark}
"""

# Spark for a handful of rows: one task a stage, nothing compiled that runs once, little kept for a page to show.
# Two cores, because some tests read a table while a task that they hold is writing it.
QUICK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
}
# `make test-full` runs on Spark's defaults, so that generated code and adaptive plans are seen, too.
DEFAULTS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # What a killed driver held in the Java process stays there: hundreds of kills need more than a gigabyte.
    "spark.driver.memory": "3g",
}
# Set by `make test-full`.
FULL = os.environ.get("TWICE_TESTS") == "full"


def toml(folder: object, lease: float = 60) -> str:
    """Return a project's twice.toml, its ledger in that folder."""
    chosen = DEFAULTS if FULL else QUICK
    spark = "\n".join(f'"{name}" = "{value}"' for name, value in chosen.items())
    return TOML.format(folder=folder, lease=lease, spark=spark)


@dataclass
class Lab:
    """A project for one test: its own namespace and ledger on the shared Spark and catalog."""

    spark: SparkSession
    ledger: Ledger
    config: configuration.Config
    space: str
    folder: Path

    def declare(self, section: str) -> None:
        """Add a section to the project's twice.toml, as that of another store."""
        file = self.config.source
        file.write_text(f"{file.read_text()}\n{section}")
        self.config = configuration.load(file)

    def name(self, table: str) -> str:
        """Return a table name in the test's own namespace."""
        return f"lake.{self.space}.{table}"

    def source(self, table: str, columns: str, rows: str = "", *, by: str = "d", **contract: Any) -> Table:
        """Create a table that no pipeline writes, by day and perhaps more; `rows` is a query or VALUES."""
        self.spark.sql(f"create table {self.name(table)} ({columns}) using iceberg partitioned by ({by})")
        if rows:
            self.insert(table, rows)
        return Table(self.name(table), partition=Day(by.partition(",")[0]), **contract)

    def insert(self, table: str, rows: str) -> None:
        """Add rows by hand: those of a query, or VALUES."""
        self.spark.sql(f"insert into {self.name(table)} {rows}")

    def sql(self, text: str) -> list[Row]:
        """Run SQL by hand; {space} is the test's namespace."""
        return self.spark.sql(text.replace("{space}", f"lake.{self.space}")).collect()

    def rows(self, table: str, where: str = "true") -> list[dict[str, Any]]:
        """Read a table as a list of dicts, in a stable order."""
        found = [row.asDict(recursive=True) for row in self.read(table).where(where).collect()]
        return sorted(found, key=lambda row: str(sorted(row.items(), key=lambda item: item[0])))

    def read(self, table: str) -> DataFrame:
        """Read a table afresh."""
        return self.spark.newSession().table(self.name(table))

    def exists(self, table: str) -> bool:
        """Return whether a table is there; a refused first attempt leaves none."""
        return bool(self.spark.catalog.tableExists(self.name(table)))

    def versions(self, table: str) -> list[int]:
        """List main's snapshots, oldest first."""
        found = self.spark.sql(f"select snapshot_id from {self.name(table)}.history order by made_current_at")
        return [row[0] for row in found.collect()]

    def refs(self, table: str) -> list[str]:
        """List branches and tags."""
        return sorted(row[0] for row in self.spark.sql(f"select name from {self.name(table)}.refs").collect())

    def files(self, table: str, where: str = "true") -> set[str]:
        """Return the paths of a table's data files."""
        return {row[0] for row in self.sql(f"select file_path from {self.name(table)}.files where {where}")}

    def outputs(self, table: str) -> list[Output]:
        """Return what the ledger says the table holds."""
        return self.ledger.outputs.list(str(Table(self.name(table)).id))

    def picture(self, table: str) -> object:
        """Return everything about a table that must not move: content, versions, branches, columns."""
        if not self.exists(table):
            return None
        columns = self.read(table).schema.simpleString()
        return self.rows(table), self.versions(table), self.refs(table), columns

    @contextmanager
    def untouched(self, *tables: str) -> Iterator[None]:
        """Require that tables, recorded outputs and leases are afterwards as they were."""
        before = [(self.picture(table), self.outputs(table)) for table in tables]
        yield
        assert [(self.picture(table), self.outputs(table)) for table in tables] == before
        assert self.ledger.leases.list() == []

    def jobs(self) -> int:
        """Count the Spark jobs that were ever started."""
        return int(self.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())

    @property
    def runtime(self) -> Runtime:
        """What the runs of this process share."""
        return Runtime(self.spark, Stores(self.config), self.ledger, self.config.lease)

    def run(self, pipeline: Pipeline, unit: object = None, **how: Any) -> RunResult:
        """Run a pipeline in this process."""
        return run(
            pipeline,
            unit,  # type: ignore[arg-type]
            spark=self.spark,
            ledger=self.ledger,
            config=self.config,
            **how,  # type: ignore[arg-type]
        )
