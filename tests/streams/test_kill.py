"""Kill -9 at every point of a batch, start again: the table holds each event once, and so does a stream behind it."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.streams.clicks import LEVELS, click
from tests.streams.driver import StreamOrder, act
from tests.support.processes import until
from twice.failpoints import FAIL_POINTS

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# Points of other rooms, which are killed there.
_ELSEWHERE = ("swap.", "shadow.", "effect.", "outbox.", "parquet.")
POINTS = [point for point in FAIL_POINTS if not point.startswith(_ELSEWHERE)]
ONLY = {"publish.ready": ("iceberg", "postgres"), "sql": ("postgres",), "delta": ("delta",)}
# Postgres copies rows in and deletes none.
NEVER = {("postgres", "sql.loaded"), ("postgres", "sql.deleted")}
CASES = [
    (kind, level, point)
    for kind in ("iceberg", "delta", "postgres")
    for level in LEVELS
    for point in POINTS
    if kind in (ONLY.get(point) or ONLY.get(point.partition(".")[0], (kind,))) and (kind, point) not in NEVER
]
# `make test` kills where the commit and what Spark, the ledger and the table know of it come apart.
QUICK = {("iceberg", "write", point) for point in ("stage.written", "publish.committed", "stream.noted")}


def test_every_point_of_a_batch_is_killed_at():
    assert {point for _, _, point in CASES} == set(POINTS) - {point for _, point in NEVER}
    assert set(CASES) >= QUICK


@pytest.mark.parametrize(
    ("kind", "level", "point"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.full) for case in CASES],
    indirect=["kind"],
)
def test_s08_killed_in_a_batch_then_restarted_each_event_is_one_row(clicks, children, kind, level, point):
    # Given a batch that is published, and two that are not, with repeats within and across them
    order = StreamOrder(str(clicks.lab.config.source), clicks.place.name("clicks"), level)
    clicks.deliver(click(1), click(2), click(1))
    assert children.start(act, order).end()["exit"] == 0
    clicks.deliver(click(2), click(3), click(3))
    clicks.deliver(click(3), click(4))
    # When the process dies at the point (for a recovery: when it cleans up after another that died)
    if point == "recover.dropped":
        killed = children.start(act, _with(order, "stage.written:kill"))
        assert killed.end()["exit"] == -signal.SIGKILL
        _until_idle(clicks)
    # At this level keys are published before the rows: die in the rows' publish.
    at = 2 if level == "process" and point not in ("recover.dropped", "stream.noted") else 1
    assert children.start(act, _with(order, f"{point}:kill", at)).end()["exit"] == -signal.SIGKILL
    _until_idle(clicks)
    # and the stream is started again
    ended = children.start(act, order).end()
    # Then each event is one row, nothing is left over, and a stream behind it sees each once
    assert ended["exit"] == 0, ended
    assert clicks.ids() == ["e1", "e2", "e3", "e4"]
    assert clicks.place.leftovers("clicks") == []
    assert clicks.lab.ledger.leases.list() == []
    if kind != "postgres":
        assert sorted(_followed(clicks)) == ["e1", "e2", "e3", "e4"]


def _with(order: StreamOrder, fail_point: str, at: int = 1) -> StreamOrder:
    return replace(order, fail_point=fail_point, at=at)


def _until_idle(clicks) -> None:
    """Wait until Spark has noticed that the process of its query is gone."""
    # Of every session: the child had one of its own.
    active = clicks.lab.spark._jsparkSession.sharedState().activeStreamingQueries()
    until(active.isEmpty)
    # What the dead process had cached would stay in the memory that all tests share.
    clicks.lab.spark.catalog.clearCache()


def _followed(clicks) -> list[str]:
    """Read the table as a stream, from its beginning."""
    from twice.engine.stores import Stores
    from twice.model.tables import Table

    session = clicks.lab.spark.newSession()
    table = Table(clicks.place.name("clicks"))
    rows = Stores(clicks.lab.config).source(table).follow(session, table, {})
    name = f"seen_{clicks.place.space}"
    writer = rows.select("event_id").writeStream.format("memory").queryName(name).trigger(availableNow=True)
    writer.option("checkpointLocation", str(clicks.lab.folder / "behind")).start().awaitTermination()
    return [row[0] for row in session.sql(f"select event_id from {name}").collect()]
