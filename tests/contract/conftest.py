"""One ground per test and store; a database of your own joins in with TWICE_CONTRACT_URL."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.contract import places
from tests.contract.ground import Ground
from twice import config as configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ["iceberg", "sqlite", "postgres", "parquet", "delta"]
_numbers = itertools.count(1)


def pytest_generate_tests(metafunc):
    if "ground" in metafunc.fixturenames:
        own = ["own"] if os.environ.get(places.OWN_URL) else []
        metafunc.parametrize("kind", [*KINDS, *own], scope="session")


@pytest.fixture
def ground(lab, lakehouse, kind, request) -> Iterator[Ground]:
    space = f"c{next(_numbers)}"
    url = request.getfixturevalue("contract_database") if kind == "postgres" else ""
    place = places.make(kind, lab.spark, lab.folder, space, url)
    file = lakehouse / f"{space}.toml"
    file.write_text(lab.config.source.read_text() + place.toml())
    yield Ground(lab, place, configuration.load(file))
    place.close()


@pytest.fixture(scope="session")
def contract_database(postgres) -> str:
    """The URL of a database that these tests share; each has a schema of its own."""
    return postgres.database()
