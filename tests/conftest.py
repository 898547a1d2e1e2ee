"""One Spark session per test process, a fresh namespace and a fresh ledger per test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import stamina

from tests.support import servers
from tests.support.processes import Children
from tests.support.project import Lab, toml
from twice import config as configuration
from twice.ledger import open_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker that docs/testing.md shows, also where `twice` was installed before it had a plugin."""
    if not config.pluginmanager.has_plugin("twice"):
        config.addinivalue_line("markers", "twice: of the plugin twice.testing.plugin")


@pytest.fixture(scope="session")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the catalog and the warehouse of this test process."""
    return tmp_path_factory.mktemp("lakehouse")


@pytest.fixture(scope="session")
def spark(lakehouse: Path) -> Iterator[SparkSession]:
    """The one Spark session, with the Iceberg catalog `lake`."""
    from twice.engine.spark import session

    (lakehouse / "twice.toml").write_text(toml("shared"))
    found = session.start(configuration.load(lakehouse / "twice.toml"))
    yield found
    found.stop()


@pytest.fixture
def lab(spark: SparkSession, lakehouse: Path, tmp_path: Path) -> Lab:
    """A project of its own for the test."""
    number = next(_numbers)
    space = f"t{number}"
    file = lakehouse / f"{space}.toml"
    file.write_text(toml(tmp_path))
    config = configuration.load(file)
    spark.sql(f"create namespace if not exists lake.{space}")
    return Lab(spark, open_ledger(config.ledger), config, space, tmp_path)


@pytest.fixture
def children(spark: SparkSession, tmp_path: Path) -> Iterator[Children]:
    """Child processes on the Spark of this process; none outlives the test."""
    found = Children(spark, tmp_path)
    yield found
    found.clean_up()


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.PostgresServer]:
    """A Postgres server of this test process."""
    with servers.running(servers.PostgresServer) as server:
        yield server


@pytest.fixture
def postgres_database(postgres: servers.PostgresServer) -> Iterator[str]:
    """The URL of a fresh database, with the password in it."""
    url = postgres.database()
    yield url
    postgres.drop(url)


@pytest.fixture(scope="session")
def pgbouncer(postgres: servers.PostgresServer) -> Iterator[servers.Bouncer]:
    """A pooler in transaction mode in front of the server."""
    with servers.running(lambda: servers.Bouncer(postgres)) as pooler:
        yield pooler


@pytest.fixture(autouse=True)
def _instant_retries() -> Iterator[None]:
    """Retries wait no time in tests; the number of attempts stays as declared."""
    stamina.set_testing(True, attempts=100, cap=True)
    yield
    stamina.set_testing(False)
