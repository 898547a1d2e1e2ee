"""Streams in the ledger: offsets are kept before a batch, counts and its end after it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from twice.errors import UsageError
from twice.model.scopes import Scope

STREAM = {
    "pipeline": "web",
    "stream": "clicks",
    "table_name": "lake.web.clicks",
    "source": "table lake.web.raw",
    "source_table": "lake.web.raw",
    "query": "q1",
    "checkpoint": "/checkpoints/web.clicks",
}


@pytest.fixture
def info(ledger):
    ledger.streams.start(STREAM | {"run": ledger.runs.start("web", Scope(None))})
    return ledger.streams.find("web", "clicks")


def test_a_stream_is_known_as_it_ran_last(ledger, info):
    again = ledger.runs.start("web", Scope(None))
    ledger.streams.start(STREAM | {"run": again, "query": "q2"})
    (found,) = ledger.streams.list()
    assert (found.run, found.query, found.stop) == (again, "q2", False)
    assert ledger.streams.readers("lake.web.raw") == [found]
    assert ledger.streams.readers("lake.web.clicks") == []
    assert ledger.streams.find("web", "other") is None


def test_a_stream_is_asked_to_stop_until_it_runs_again(ledger, info):
    ledger.streams.ask_to_stop("web", "clicks")
    assert ledger.streams.find("web", "clicks").stop
    ledger.streams.start(STREAM | {"run": info.run})
    assert not ledger.streams.find("web", "clicks").stop
    with pytest.raises(UsageError, match=r"the stream web\.other has never run"):
        ledger.streams.ask_to_stop("web", "other")


def test_a_batch_keeps_the_offsets_that_it_was_published_with(ledger, info):
    ledger.streams.batches.start(info, 0, "first")
    # What was not published is read anew
    batch = ledger.streams.batches.start(info, 0, "second")
    assert (batch.offsets, batch.ended_at) == ("second", None)
    ledger.streams.batches.note(batch, {"rows_in": 5, "rows_out": 3, "duplicates": 2})
    ledger.streams.batches.note(batch, {"version": "v7"}, ended=True)
    ledger.streams.batches.note(batch, {"late": 1}, replayed=True)
    known = ledger.streams.batches.start(info, 0, "third")
    assert (known.offsets, known.rows_in, known.rows_out, known.duplicates, known.late) == ("second", 5, 3, 2, 1)
    assert known.version == "v7"
    assert None not in (known.ended_at, known.replayed_at)


def test_batches_are_found_by_number_time_and_query(ledger, clock, info):
    began = clock.now()
    for number in range(4):
        ledger.streams.batches.start(info, number, f"o{number}")
        clock.advance(timedelta(hours=1))
    found = ledger.streams.batches.list("web", "clicks")
    assert [batch.batch for batch in found] == [3, 2, 1, 0]
    assert [batch.batch for batch in ledger.streams.batches.list("web", "clicks", numbers=(1, 3))] == [2, 1]
    since = began + timedelta(hours=1)
    until = began + timedelta(hours=3)
    assert [batch.batch for batch in ledger.streams.batches.list("web", "clicks", since=since, until=until)] == [2, 1]
    assert ledger.streams.batches.list("web", "clicks", query="other") == []
    assert ledger.streams.batches.find("web", "clicks", "q1", 2).offsets == "o2"
    assert ledger.streams.batches.find("web", "clicks", "q1", 9) is None


def test_a_prune_keeps_the_batch_that_says_where_a_stream_is(ledger, clock, info):
    for number in range(3):
        ledger.streams.batches.start(info, number, f"o{number}")
    clock.advance(timedelta(days=100))
    report = ledger.admin.prune(timedelta(days=30))
    assert report.batches == 2
    assert [batch.batch for batch in ledger.streams.batches.list("web", "clicks")] == [2]
