"""A source of clicks, a stream that brings them into a table, and a look at the table past twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.streams.clicks import Clicks
from tests.support import stores

_numbers = itertools.count(1)
# The stores that streams may write.
SINKS = ["iceberg", "delta", "postgres"]


@pytest.fixture
def kind(request) -> str:
    """The store that the stream writes; Iceberg, where a test does not say."""
    return getattr(request, "param", "iceberg")


@pytest.fixture
def clicks(lab, kind, request) -> Iterator[Clicks]:
    url = request.getfixturevalue("postgres_database") if kind == "postgres" else ""
    place = stores.make(kind, lab.spark, lab.folder, f"s{next(_numbers)}", url)
    lab.declare(place.toml())
    found = Clicks(lab, place)
    yield found
    place.close()
