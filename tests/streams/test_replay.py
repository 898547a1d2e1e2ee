"""Past batches are read again by their recorded offsets, and what they wrote is replaced."""

from __future__ import annotations

import threading

import pytest

from tests.streams.clicks import click, dated
from tests.streams.conftest import SINKS
from tests.support.processes import until
from twice import Merge, hours
from twice.errors import StoreRefused, StreamRefused, UsageError
from twice.streams import Process, Windowed
from twice.streams.replay import replay

pytestmark = pytest.mark.spark

ON_EVERY_STORE = pytest.mark.parametrize(
    "kind", ["iceberg", *(pytest.param(kind, marks=pytest.mark.full) for kind in SINKS[1:])], indirect=True
)


def wrong(rows):
    """Write the page wrong, and let bots through."""
    return dated(rows).selectExpr("event_id", "concat(page, '?') AS page", "happened_at", "received_at", "d")


def right(rows):
    return dated(rows).where("page <> 'bot'")


def again(clicks, pipeline, first, end):
    """Replay batches of the only query."""
    batches = clicks.lab.ledger.streams.batches.list("web", "clicks", numbers=(first, end))
    return replay(clicks.lab.runtime, pipeline, pipeline.find_stream(None), clicks.lab.config.checkpoints, batches)


@pytest.mark.full
@ON_EVERY_STORE
def test_s59_batches_are_restated_while_the_stream_goes_on(clicks):
    # Given two batches that were written by code with a bug
    clicks.deliver(click(1), click(2, "bot"), click(1))
    clicks.deliver(click(2, "bot"), click(3))
    clicks.run(clicks.declare(make=wrong))
    clicks.deliver(click(1), click(4))
    # and a stream that runs on with the repaired code
    repaired, stop = clicks.declare(make=right), threading.Event()
    ended: list[BaseException] = []

    def run() -> None:
        try:
            clicks.run(repaired, available_now=False, stop=stop)
        except BaseException as error:
            ended.append(error)

    running = threading.Thread(target=run)
    running.start()
    try:
        until(lambda: clicks.told and clicks.told[-1].batch == 2)
        # When the two batches are replayed meanwhile
        done = again(clicks, repaired, 0, 2)
        clicks.deliver(click(3), click(5))
        until(lambda: clicks.told[-1].batch == 3)
    finally:
        stop.set()
        running.join(60)
    # Then they are as the repaired code makes them, nothing is lost and nothing doubled
    assert [(each.batch, each.status, each.rows_in) for each in done] == [(0, "published", 3), (1, "published", 2)]
    assert clicks.place.rows("clicks", "event_id", "page") == [(f"e{n}", "home") for n in (1, 3, 4, 5)]
    assert type(ended[0]).__name__ == "Interrupted"
    # and to replay them once more changes nothing
    before = clicks.place.versions("clicks")
    assert [each.status for each in again(clicks, repaired, 0, 4)] == ["unchanged"] * 4
    assert clicks.place.versions("clicks") == before
    assert clicks.lab.ledger.leases.list() == []


@ON_EVERY_STORE
def test_a_replay_of_versions_corrects_its_own_and_keeps_newer_ones(clicks):
    table = clicks.table(write=Merge(version="received_at"))
    clicks.deliver(click(1, received=1), click(2, received=1))
    clicks.deliver(click(1, "newer", received=2))
    clicks.run(clicks.declare(make=wrong, table=table))
    done = again(clicks, clicks.declare(make=right, table=table), 0, 1)
    assert [(each.status, each.rows_out) for each in done] == [("published", 1)]
    assert clicks.place.rows("clicks", "event_id", "page") == [("e1", "newer?"), ("e2", "home")]


def test_a_replay_may_add_a_column_and_keeps_rows_that_no_stream_wrote(clicks):
    # Given a table that held a row before the stream began
    clicks.deliver(click(1), click(2))
    clicks.run(clicks.declare())
    name = clicks.place.name("clicks")
    clicks.lab.sql(f"update {name} set _twice_window = null where event_id = 'e1'")

    def with_more(rows):
        return dated(rows).selectExpr("*", "1 AS more")

    (done,) = again(clicks, clicks.declare(make=with_more), 0, 1)
    assert (done.status, done.rows_out) == ("published", 1)
    assert clicks.place.rows("clicks", "event_id", "more") == [("e1", None), ("e2", 1)]
    # A table whose deletes are files of their own is refused
    clicks.lab.sql(f"alter table {name} set tblproperties ('write.delete.mode' = 'merge-on-read')")
    with pytest.raises(StoreRefused, match="merge-on-read"):
        again(clicks, clicks.declare(make=lambda rows: with_more(rows).where("page <> 'home'")), 0, 1)


@pytest.mark.full
def test_a_replay_of_the_other_levels_replaces_what_the_batch_wrote(clicks):
    # Process: an event stays with the batch that saw it first
    process = Process("event_id")
    clicks.deliver(click(1), click(2, "bot"))
    clicks.deliver(click(1), click(3))
    clicks.run(clicks.declare(process, wrong))
    again(clicks, clicks.declare(process, right), 0, 2)
    assert clicks.place.rows("clicks", "event_id", "page") == [("e1", "home"), ("e3", "home")]


@pytest.mark.full
def test_a_replay_of_a_window_leaves_out_what_was_late_then(clicks):
    windowed = Windowed("event_id", hours(1), event_time="happened_at")
    clicks.deliver(click(1))
    clicks.deliver(click(2, minutes=300))
    clicks.deliver(click(3, minutes=301))
    clicks.deliver(click(4, minutes=1), click(5, minutes=302))
    clicks.run(clicks.declare(windowed, wrong))
    again(clicks, clicks.declare(windowed, right), 0, 4)
    assert clicks.place.rows("clicks", "event_id", "page") == [(f"e{n}", "home") for n in (1, 2, 3, 5)]


def test_what_cannot_be_read_again_is_said_and_nothing_changes(clicks):
    clicks.deliver(click(1))
    gone = clicks.deliver(click(2))
    pipeline = clicks.declare()
    clicks.run(pipeline)
    gone.unlink()
    before = clicks.place.versions("clicks")
    with pytest.raises(StreamRefused, match=r"batch 1 of the stream web\.clicks cannot be read again"):
        again(clicks, pipeline, 1, 2)
    with pytest.raises(UsageError, match="no batch of the stream"):
        again(clicks, pipeline, 7, 9)
    assert clicks.place.versions("clicks") == before
    # No copy of the checkpoint stays behind
    assert [path.name for path in clicks.checkpoint.parent.iterdir()] == ["web.clicks"]
