"""The tables of one store per test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.support import stores
from tests.support.tables import StoreTables

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture
def tables(lab, request) -> Iterator[StoreTables]:
    """A namespace of its own in a store of the kind that the test names."""
    kind = request.param
    url = request.getfixturevalue("postgres_database") if kind == "postgres" else ""
    place = stores.make(kind, lab.spark, lab.folder, f"r{next(_numbers)}", url)
    yield StoreTables(lab, place)
    place.close()
