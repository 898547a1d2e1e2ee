"""Rows that Postgres sorts while it swaps them in: killed in the middle, taken over, read in a loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.store.databases import COLUMNS, postgres_place
from twice.errors import LeaseLost
from twice.store.sql.write import publishing, staging

ROOT = Path(__file__).parent.parent.parent
COUNT = 10_000
CHILD = "import sys; from tests.store.test_sql_swap import swap; swap(sys.argv[1], int(sys.argv[2]))"

pytestmark = pytest.mark.crash


def staged(place, token):
    """Open a claim and stage more rows than a sample has, in no order, each with the token as its name."""
    staged = place.opened(place.table(), token, days=1, schema=COLUMNS)
    name = staging.stage_table(place.database, staged).name
    mixed = f"select '2026-04-25', n::bigint * 3001 % {COUNT}, '{token}' from generate_series(0, {COUNT - 1}) n"
    place.sql(f"insert into {name} (d, id, name) {mixed}")
    staging.look(place.database, staged)
    return staged


def swap(url, token):
    place = postgres_place(url)
    place.publish(staged(place, token))


@pytest.fixture
def reader(pg):
    """Read the table in a loop until `stop` is set; `seen` has what was found, in its order."""
    pg.publish(staged(pg, 1))
    seen, stop = [], threading.Event()

    def read():
        with pg.database.engine.connect() as connection:
            while not stop.is_set():
                with connection.begin():
                    found = connection.exec_driver_sql("select count(*), min(name), max(name) from mart").one()
                if tuple(found) not in seen[-1:]:
                    seen.append(tuple(found))

    thread = threading.Thread(target=read)
    thread.start()
    yield seen, stop, thread
    stop.set()
    thread.join()


@pytest.mark.parametrize("point", ["sql.deleted", "publish.ready"])
def test_a_swap_that_is_killed_in_the_middle_is_taken_over_and_readers_see_whole_versions(
    pg, postgres_database, reader, point
):
    seen, stop, thread = reader
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, postgres_database, "2"],
        cwd=ROOT,
        env={**os.environ, "TWICE_FAILPOINT": f"{point}:kill"},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert pg.sql("select count(*), min(name), max(name) from mart") == [(COUNT, "1", "1")]

    assert publishing.fence(pg.database, pg.table().id, 2) is None
    pg.publish(staged(pg, 3))
    stop.set()
    thread.join()

    assert pg.sql("select count(*), min(name), max(name) from mart") == [(COUNT, "3", "3")]
    assert [(COUNT, "1", "1"), (COUNT, "3", "3")][: len(seen)] == seen
    assert pg.left() == []


def test_a_swap_that_was_taken_over_while_its_rows_were_staged_changes_nothing(pg, reader):
    seen, _, _ = reader
    frozen = staged(pg, 2)
    assert publishing.fence(pg.database, pg.table().id, 2) is None
    pg.publish(staged(pg, 3))

    with pytest.raises(LeaseLost):
        pg.publish(frozen)

    assert pg.sql("select count(*), min(name), max(name) from mart") == [(COUNT, "3", "3")]
    assert set(seen) <= {(COUNT, "1", "1"), (COUNT, "3", "3")}
    assert pg.left() == []
