"""One Spark session per test process, a fresh namespace and a fresh ledger per test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import stamina

from tests import servers
from twice import config as configuration
from twice.engine.api import run
from twice.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.engine.run import RunResult
    from twice.model.pipelines import Pipeline

_numbers = itertools.count(1)

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
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = "2"
"spark.default.parallelism" = "2"
"""


@pytest.fixture(scope="session")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the catalog and the warehouse of this test process."""
    return tmp_path_factory.mktemp("lakehouse")


@pytest.fixture(scope="session")
def spark(lakehouse: Path) -> Iterator[SparkSession]:
    """The one Spark session, with the Iceberg catalog `lake`."""
    from twice.engine import session

    (lakehouse / "twice.toml").write_text(TOML.format(folder="shared", lease=60))
    found = session.start(configuration.load(lakehouse / "twice.toml"))
    yield found
    found.stop()


@dataclass
class Lab:
    """A project for one test: its own namespace and ledger on the shared Spark and catalog."""

    spark: SparkSession
    ledger: Ledger
    config: configuration.Config
    space: str
    folder: Path

    def name(self, table: str) -> str:
        """Return a table name in the test's own namespace."""
        return f"lake.{self.space}.{table}"

    def rows(self, table: str, where: str = "true") -> list[dict[str, Any]]:
        """Read a table as a list of dicts, in a stable order."""
        found = [row.asDict(recursive=True) for row in self.read(table).where(where).collect()]
        return sorted(found, key=lambda row: str(sorted(row.items(), key=lambda item: item[0])))

    def read(self, table: str) -> DataFrame:
        """Read a table afresh."""
        return self.spark.newSession().table(self.name(table))

    def versions(self, table: str) -> list[int]:
        """List main's snapshots, oldest first."""
        found = self.spark.sql(f"select snapshot_id from {self.name(table)}.history order by made_current_at")
        return [row[0] for row in found.collect()]

    def refs(self, table: str) -> list[str]:
        """List branches and tags."""
        return sorted(row[0] for row in self.spark.sql(f"select name from {self.name(table)}.refs").collect())

    def run(self, pipeline: Pipeline, for_: object = None, **how: Any) -> RunResult:
        """Run a pipeline in this process."""
        return run(
            pipeline,
            for_=for_,
            spark=self.spark,
            ledger=self.ledger,
            config=self.config,
            **how,  # type: ignore[arg-type]
        )


@pytest.fixture
def lab(spark: SparkSession, lakehouse: Path, tmp_path: Path) -> Lab:
    """A project of its own for the test."""
    number = next(_numbers)
    space = f"t{number}"
    file = lakehouse / f"{space}.toml"
    file.write_text(TOML.format(folder=tmp_path, lease=60))
    config = configuration.load(file)
    spark.sql(f"create namespace if not exists lake.{space}")
    return Lab(spark, open_ledger(config.ledger), config, space, tmp_path)


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.Postgres]:
    """A Postgres server of this test process."""
    with servers.running(servers.Postgres) as server:
        yield server


@pytest.fixture
def postgres_database(postgres: servers.Postgres) -> Iterator[str]:
    """The URL of a fresh database, with the password in it."""
    url = postgres.database()
    yield url
    postgres.drop(url)


@pytest.fixture(scope="session")
def pgbouncer(postgres: servers.Postgres) -> Iterator[servers.Bouncer]:
    """A pooler in transaction mode in front of the server."""
    with servers.running(lambda: servers.Bouncer(postgres)) as pooler:
        yield pooler


@pytest.fixture(autouse=True)
def _instant_retries() -> Iterator[None]:
    """Retries wait no time in tests; the number of attempts stays as declared."""
    stamina.set_testing(True, attempts=100, cap=True)
    yield
    stamina.set_testing(False)
