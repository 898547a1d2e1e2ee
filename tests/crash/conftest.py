"""Worlds for the crash tests: one per test, or one per store and write pattern for the kill matrix."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from tests.crash import tally
from tests.crash.world import World
from tests.support import stores
from tests.support.processes import Children
from twice import config as configuration
from twice.ledger import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how each case ended; a case that could not begin did not survive."""
    if report.when == "call" or report.failed:
        tally.OUTCOMES[report.nodeid] = report.passed and tally.OUTCOMES.get(report.nodeid, True)


def pytest_sessionfinish() -> None:
    """Leave the sum of the matrix where `make crash-matrix` looks for it."""
    if os.environ.get(tally.REPORT):
        Path(os.environ[tally.REPORT]).write_text(tally.line() + "\n")


@pytest.fixture(scope="session")
def new_world(
    spark: SparkSession, lakehouse: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[..., World]]:
    """Build worlds that share the Spark, the catalog and the servers, but no table and no ledger."""
    made = []

    def build(kind: str, lease: float = 60, store: str = "iceberg") -> World:
        space = f"crash{next(_numbers)}"
        folder = tmp_path_factory.mktemp(space)
        url = request.getfixturevalue("crash_database") if store == "postgres" else ""
        place = stores.make(store, spark, folder, space, url)
        made.append(place)
        file = lakehouse / f"{space}.toml"
        text = (lakehouse / "twice.toml").read_text()
        text = text.replace("sqlite:///shared", f"sqlite:///{folder}").replace("seconds = 60", f"seconds = {lease}")
        file.write_text(text + place.toml())
        config = configuration.load(file)
        return World(spark, open_ledger(config.ledger), config, space, kind, folder, place)

    yield build
    for place in made:
        with suppress(sa.exc.OperationalError):  # the server may have been stopped first, and its databases with it
            place.close()


@pytest.fixture(scope="session")
def crash_database(postgres: Any) -> str:
    """The URL of a database that the worlds share; each has a schema of its own."""
    return str(postgres.database())


@pytest.fixture
def world(new_world: Callable[..., World], children: Children) -> Callable[..., World]:
    """Make a world for one test."""

    def make(kind: str = "overwrite", *, lease: float = 60, seed: bool = True, store: str = "iceberg") -> World:
        made = new_world(kind, lease, store)
        made.children = children
        if seed:
            made.seed()
        return made

    return make


@pytest.fixture(scope="module")
def lasting_worlds() -> dict[tuple[str, float, str], World]:
    """The worlds that the tests of a module share."""
    return {}


@pytest.fixture
def lasting(
    new_world: Callable[..., World], lasting_worlds: dict[tuple[str, float, str], World], children: Children
) -> Callable[..., World]:
    """Return a seeded world that the module shares: each test goes on where the last one ended."""

    def of(kind: str, *, lease: float = 60, store: str = "iceberg") -> World:
        found = lasting_worlds.get((kind, lease, store))
        if found is None:
            found = lasting_worlds[kind, lease, store] = new_world(kind, lease, store)
            found.seed()
        found.children = children
        return found

    return of
