"""The tables of one store per test; a database of your own joins in with TWICE_CONTRACT_URL.

`make test` runs the tests marked `every_store` on every store and the others on Iceberg, but for those whose promise
the scenarios prove on Iceberg (`in_scenarios`); `make test-full` runs all of them on every store. A test that `needs`
an ability runs on the stores that have it, one that `lacks` it on the others (test_refusals.py).
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.support import stores
from tests.support.tables import StoreTables

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ["iceberg", "sqlite", "postgres", "parquet", "delta"]
# Which stores lack an ability; test_refusals.py fails when this is not so.
LACKING = {
    "merge": {"parquet"},
    "shadow": {"parquet"},
    "side_by_side": {"delta"},
    "outside_readers": {"iceberg", "delta", "parquet"},
}
_numbers = itertools.count(1)


def pytest_generate_tests(metafunc):
    if "tables" not in metafunc.fixturenames:
        return
    chosen = [*KINDS, *(["own"] if os.environ.get(stores.OWN_URL) else [])]
    for mark in metafunc.definition.iter_markers("needs"):
        chosen = [kind for kind in chosen if kind not in LACKING[mark.args[0]]]
    for mark in metafunc.definition.iter_markers("lacks"):
        chosen = [kind for kind in chosen if kind in LACKING[mark.args[0]]]
    everywhere = metafunc.definition.get_closest_marker("every_store")
    first = None if metafunc.definition.get_closest_marker("in_scenarios") else chosen[0]
    marks = {kind: () if everywhere or kind == first else pytest.mark.full for kind in chosen}
    metafunc.parametrize("kind", [pytest.param(kind, marks=marks[kind]) for kind in chosen], scope="session")


@pytest.fixture
def tables(lab, kind, request) -> Iterator[StoreTables]:
    space = f"c{next(_numbers)}"
    url = request.getfixturevalue("contract_database") if kind == "postgres" else ""
    place = stores.make(kind, lab.spark, lab.folder, space, url)
    yield StoreTables(lab, place)
    place.close()


@pytest.fixture(scope="session")
def contract_database(postgres) -> str:
    """The URL of a database that these tests share; each has a schema of its own."""
    return postgres.database()
