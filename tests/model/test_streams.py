"""Streams that could not keep their promise are refused when they are defined."""

from __future__ import annotations

import pytest

from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Table, Whole, gates, hours
from twice.errors import DefinitionError, UsageError
from twice.model.contracts import contracts
from twice.model.streams import StreamMark
from twice.streams import KafkaSource, Process, RateSource, Windowed, Write

RAW = Table("landing.web.clicks", schema="event_id STRING")


def table(**contract: object) -> Table:
    known = {"partition": Day("d"), "key": ["event_id"], "write": InsertOnly()}
    return Table("lake.web.fct_clicks", **(known | contract))


def clicks(rows):
    return rows


def declare(**how: object) -> Pipeline:
    pipeline = Pipeline("web", grain=Day)
    pipeline.stream(**({"reads": RAW, "writes": table(), "dedup": Write("event_id")} | how))(
        how.pop("function", clicks)
    )
    return pipeline


def two(rows, more):
    return rows


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"dedup": "event_id"}, "must be Process"),
        ({"reads": "clicks"}, "must be a Table, a KafkaSource or a RateSource"),
        (
            {"reads": Table("lake.web.raw", partition=Day("d"), write=Overwrite())},
            "written with Overwrite.*--only stale",
        ),
        ({"reads": Table("lake.web.raw", key=["id"], write=Merge(version="v"))}, r"written with Merge\(\)"),
        ({"reads": table()}, "reads the table that it writes"),
        ({"writes": table(write=Overwrite())}, r"must be written with InsertOnly\(\) or Merge"),
        ({"writes": table(write=Whole(), partition=None)}, r"must be written with InsertOnly\(\) or Merge"),
        ({"writes": table(gates=[gates.row_count_change(0.5)])}, "judge one batch at a time"),
        ({"dedup": Write("id")}, "by its key, which is event_id, not id"),
        ({"dedup": Process("id")}, "id is not in the key of"),
        ({"dedup": Windowed("event_id", hours(24))}, "needs the column that says when an event happened"),
        (
            {"dedup": Windowed("event_id", hours(24), "at"), "writes": table(write=Merge(version="v"))},
            "so no version can win",
        ),
        ({"every": 3}, r"must be a duration such as minutes\(1\)"),
        ({"name": "a b"}, "use letters"),
    ],
)
def test_a_stream_that_could_not_keep_its_promise_is_refused(how, message):
    with pytest.raises(DefinitionError, match=message):
        declare(**how)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Write([]), "name the columns of the event key"),
        (lambda: Windowed("id", 3), r"must be a duration such as hours\(24\)"),
        (lambda: Windowed("id", hours(1), "at", late=RAW), r"must be a Table with write=InsertOnly\(\)"),
        (lambda: KafkaSource("", "clicks"), "needs servers and topics"),
        (lambda: KafkaSource("broker:9092", []), "needs servers and topics"),
        (lambda: RateSource(0), "must be 1 or more"),
    ],
)
def test_a_source_or_level_that_cannot_be_is_refused(make, message):
    with pytest.raises(DefinitionError, match=message):
        make()


def test_the_function_takes_the_batch_and_nothing_that_is_not_offered():
    pipeline = Pipeline("web", grain=Day)
    with pytest.raises(DefinitionError, match="it must take the batch's rows"):
        pipeline.stream(reads=RAW, writes=table(), dedup=Write("event_id"))(two)
    with pytest.raises(DefinitionError, match="must be a plain function"):
        pipeline.stream(reads=RAW, writes=table(), dedup=Write("event_id"))(print)
    assert pipeline.streams == {}


def test_one_table_has_one_producer_stream_or_step():
    pipeline = declare()
    with pytest.raises(DefinitionError, match="is already written by the stream clicks"):
        pipeline.stream(reads=RAW, writes=table(), dedup=Write("event_id"), name="more")(clicks)
    with pytest.raises(DefinitionError, match="is already written by the stream clicks"):
        pipeline.sql("again", reads={"raw": RAW.latest()}, writes=table(), query="SELECT 1")
    with pytest.raises(DefinitionError, match="already has a stream clicks"):
        pipeline.stream(reads=RAW, writes=Table("lake.web.t", key=["event_id"], write=InsertOnly()),
                        dedup=Write("event_id"))(clicks)  # fmt: skip


def test_a_stream_is_found_by_its_name_or_alone():
    pipeline = declare()
    assert pipeline.find_stream(None) is pipeline.find_stream("clicks")
    with pytest.raises(UsageError, match="no stream 'other'; its streams are: clicks"):
        pipeline.find_stream("other")
    with pytest.raises(UsageError, match="has 0 streams"):
        Pipeline("web", grain=Day).find_stream(None)


def test_the_contract_names_the_stream_its_level_and_its_source():
    text = contracts([declare(dedup=Windowed("event_id", hours(24), "happened_at"))])
    assert "| Written by | stream clicks from table landing.web.clicks; remember each event_id for 1 day" in text
    assert "late events are counted" in text


def test_a_mark_covers_the_batches_of_its_query_up_to_its_own():
    mark = StreamMark("web.clicks", "9f1c", 4)
    assert StreamMark.read(mark.text) == mark
    assert StreamMark.read(None) is None
    assert (mark.covers("9f1c", 4), mark.covers("9f1c", 5), mark.covers("other", 1)) == (True, False, False)
