"""Worlds for the crash tests: one per test, or one per write pattern for the kill matrix."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.crash.children import Nursery
from tests.crash.world import World
from twice import config as configuration
from twice.ledger import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def new_world(spark: SparkSession, lakehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., World]:
    """Build worlds that share the Spark, the catalog and the warehouse, but no table and no ledger."""

    def build(kind: str, lease: float = 60) -> World:
        space = f"crash{next(_numbers)}"
        folder = tmp_path_factory.mktemp(space)
        file = lakehouse / f"{space}.toml"
        text = (lakehouse / "twice.toml").read_text()
        file.write_text(
            text.replace("sqlite:///shared", f"sqlite:///{folder}").replace("seconds = 60", f"seconds = {lease}")
        )
        config = configuration.load(file)
        return World(spark, open_ledger(config.ledger), config, space, kind, folder)

    return build


@pytest.fixture
def nursery(spark: SparkSession, tmp_path: Path) -> Iterator[Nursery]:
    """Where a test's child processes come from; none outlives the test."""
    found = Nursery(spark, tmp_path)
    yield found
    found.clean_up()


@pytest.fixture
def world(new_world: Callable[..., World], nursery: Nursery) -> Callable[..., World]:
    """Make a world for one test."""

    def make(kind: str = "overwrite", *, lease: float = 60, seed: bool = True) -> World:
        made = new_world(kind, lease)
        made.nursery = nursery
        if seed:
            made.seed()
        return made

    return make


@pytest.fixture(scope="module")
def lasting_worlds() -> dict[tuple[str, float], World]:
    """The worlds that the tests of a module share."""
    return {}


@pytest.fixture
def lasting(
    new_world: Callable[..., World], lasting_worlds: dict[tuple[str, float], World], nursery: Nursery
) -> Callable[..., World]:
    """Return a seeded world that the module shares: each test goes on where the last one ended."""

    def of(kind: str, *, lease: float = 60) -> World:
        found = lasting_worlds.get((kind, lease))
        if found is None:
            found = lasting_worlds[kind, lease] = new_world(kind, lease)
            found.seed()
        found.nursery = nursery
        return found

    return of
