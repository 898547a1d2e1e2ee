"""Kill -9 at every named point of the protocol, on every store; run again, and find what a clean run makes."""

from __future__ import annotations

import itertools
import signal
from decimal import Decimal

import pytest

from tests.crash import tally
from tests.crash.world import DAY
from twice.failpoints import FAIL_POINTS

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# Swaps are killed in tests/backfill/test_shadow.py, effects in tests/effects/test_crashes.py, the relay in
# tests/effects/test_outbox.py, streams in tests/streams/test_kill.py.
_ELSEWHERE = ("swap.", "shadow.", "effect.", "outbox.", "stream.")
POINTS = [point for point in FAIL_POINTS if not point.startswith(_ELSEWHERE)]
STORES = ("iceberg", "sqlite", "postgres", "parquet", "delta")
# Points that only some stores have, by name or by its first part; all others every store passes.
ONLY = {
    "publish.ready": ("iceberg", "sqlite", "postgres"),
    "sql": ("sqlite", "postgres"),
    "parquet": ("parquet",),
    "delta": ("delta",),
}
PATTERNS = dict.fromkeys(STORES, ("merge", "insert", "whole")) | {"parquet": ("whole",)}


def stores_of(point: str) -> tuple[str, ...]:
    return ONLY.get(point) or ONLY.get(point.partition(".")[0], STORES)


EVERY = [(store, "overwrite", point) for store in STORES for point in POINTS if store in stores_of(point)]
# The engine's own points are the same code for every store: `make test` kills Iceberg at every point, and each other
# store at its own points; SQLite is killed at every system call (test_system_calls.py), and every store loses the
# answer to its commit (test_lost_commits.py). `make test-full` and `make crash-matrix` take the rest.
QUICK = [
    (store, kind, point)
    for store, kind, point in EVERY
    if store == "iceberg" or (store != "sqlite" and stores_of(point) != STORES)
]
DIFFERENT = ("stage.written", "publish.ready", "delta.ready", "parquet.moved_in", "publish.committed", "record.written")
# Inserting deletes nothing, and Postgres merges by an upsert.
NEVER = {("sqlite", "insert", "sql.deleted"), *(("postgres", kind, "sql.deleted") for kind in ("insert", "merge"))}
ALL = [
    (store, kind, point)
    for store in STORES
    for kind, point in itertools.product(PATTERNS[store], (*DIFFERENT, "sql.deleted"))
    if store in stores_of(point) and (store, kind, point) not in NEVER
]
CASES = [
    pytest.param(*case, id="-".join(case).replace(".", "-"), marks=() if case in {*QUICK} else pytest.mark.full)
    for case in dict.fromkeys([*EVERY, *ALL])
]
LANDED = {"publish.committed", "record.written"}
# A journal that is written is a publish that is decided: whoever comes next carries it out.
DECIDED = {point for point in POINTS if point.startswith("parquet.")} - {"parquet.ready"}


def test_every_fail_point_is_killed_at_and_a_stores_own_on_that_store():
    assert {*QUICK} <= {*EVERY, *ALL}
    killed = {(store, point) for store, kind, point in QUICK}
    assert {point for _, point in killed} == set(POINTS)
    own = {(store, point) for point in POINTS for store in stores_of(point) if stores_of(point) != STORES}
    assert {(store, point) for store, point in own if store != "sqlite"} <= killed
    assert {*STORES} - {"sqlite"} == {store for store, _ in killed}
    assert {(store, point) for store, _, point in EVERY} == {(s, p) for p in POINTS for s in stores_of(p)}


@pytest.mark.parametrize(("store", "kind", "point"), CASES)
def test_s08_killed_then_rerun_is_a_clean_run(lasting, store, kind, point):
    # Given a table with other days and an older version of this day, and a new delivery.
    world = lasting(kind, store=store)
    number = world.land_next()
    old, new = world.look(), world.delivered()
    before = world.commits()
    neighbours = world.files(f"partition.d <> date'{DAY}'") if (store, kind) == ("iceberg", "overwrite") else []
    assert old != new

    with tally.kill(store, point) as case:
        with world.reader() as reader:
            # When a run dies at the point (for a recovery: when it cleans up after another that died) …
            if point == "recover.dropped":
                assert world.child(fail_point="stage.written:kill").end()["exit"] == -signal.SIGKILL
            assert world.child(fail_point=f"{point}:kill").end()["exit"] == -signal.SIGKILL
            after_death = world.look()
            # … and the same run is started again, at once.
            result = world.run()
        rows, digests = world.clean(number)
        case.compare(world.rows(), rows)
        case.bad_reads = reader.bad(old, new)

    # Then the table is what a clean run makes, in one new version,
    landed = point in LANDED | DECIDED
    if point in DECIDED:
        assert after_death in (old, new, (0, Decimal(0)))
    else:
        assert after_death == (new if landed else old)
    assert [step.status for step in result.steps] == ["unchanged" if landed else "published"]
    assert (case.lost, case.doubled, case.bad_reads) == (0, 0, 0), reader.failed
    assert world.recorded() == digests
    assert world.commits() == before + 1
    # the neighbours keep their very files, nothing is left over, and readers saw one version, then the other.
    if neighbours:
        assert world.files(f"partition.d <> date'{DAY}'") == neighbours
    assert world.tidy()
    if world.place.reads_whole:
        assert reader.story == [old, new]
    assert len(reader.seen) > 2
