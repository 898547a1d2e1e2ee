"""Two lanes of COPY into one staging table: all rows once, or an error and no lane left open."""

from __future__ import annotations

import threading

import psycopg
import pytest
import sqlalchemy as sa

from twice.errors import TwiceError
from twice.store.sql.database import Database
from twice.store.sql.write import copying


@pytest.fixture
def database(postgres_database):
    found = Database("serving", sa.make_url(postgres_database).set(drivername="postgresql+psycopg"))
    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE UNLOGGED TABLE loaded (n bigint)")
    yield found
    found.rest()


def numbers(first, last):
    def part():
        for start in range(first, last, 100):
            lines = [f"{n}\n" for n in range(start, min(last, start + 100))]
            yield len(lines), "".join(lines).encode()

    return part


COPY = "COPY loaded FROM STDIN WITH (FORMAT csv)"


def loaded(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*), count(DISTINCT n) FROM loaded").fetchone()


@pytest.mark.parametrize("lanes", [1, 2])
def test_every_part_is_loaded_once(database, postgres_database, lanes):
    parts = [numbers(first, first + 250) for first in range(0, 5000, 250)]
    assert copying.copy(database, COPY, parts, lanes) == (5000, 5000)
    assert loaded(postgres_database) == (5000, 5000)


def test_two_lanes_work_at_the_same_time(database, postgres_database):
    both = threading.Barrier(2, timeout=20)

    def meet():
        both.wait()
        yield 1, b"1\n"

    assert copying.copy(database, COPY, [meet, meet], lanes=2) == (2, 2)


def test_a_lane_that_fails_stops_the_other_and_its_rows_are_taken_back(database, postgres_database):
    failed = threading.Event()

    def endless():
        yield 1, b"1\n"
        assert failed.wait(20)
        while True:
            yield 1, b"2\n"

    def broken():
        yield 1, b"not a number\n"
        failed.set()

    with pytest.raises(TwiceError, match=r"not a number|invalid input"):
        copying.copy(database, COPY, [endless, broken], lanes=2)
    assert loaded(postgres_database) == (0, 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "twice-copy"]


def test_no_parts_are_no_rows(database, postgres_database):
    assert copying.copy(database, COPY, [], lanes=1) == (0, 0)
