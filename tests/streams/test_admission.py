"""What would lose or double rows is refused in one sentence, and nothing is lost by it."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta

import pytest
from pyspark.sql.conf import RuntimeConfig

from tests.streams.clicks import LEVELS, SCHEMA, click
from twice import Table, gates, hours
from twice.engine.operations.maintain import maintain
from twice.engine.operations.undo import undo
from twice.errors import (
    DefinitionError,
    GateFailed,
    KeyViolation,
    SchemaRefused,
    ScopeHeld,
    StepFailed,
    StoreRefused,
    StreamRefused,
    UsageError,
)
from twice.model.scopes import Scope
from twice.model.streams import StreamMark
from twice.streams import Process, Windowed

pytestmark = pytest.mark.spark


def test_a_new_checkpoint_on_an_old_table_is_refused_and_can_be_resumed(clicks):
    pipeline = clicks.declare()
    clicks.deliver(click(1), click(2))
    clicks.run(pipeline)
    # Given a checkpoint that is gone
    shutil.rmtree(clicks.checkpoint)
    clicks.deliver(click(2), click(3))
    with pytest.raises(StreamRefused, match=r"the checkpoint .* is new"):
        clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2"]
    # When it is resumed from the table, files are read again, and the keys keep doubles out
    done = clicks.run(pipeline, resume=True)
    assert clicks.ids() == ["e1", "e2", "e3"]
    assert (done.rows_in, done.rows_out) == (4, 1)
    # and it runs on as before
    clicks.deliver(click(3), click(4))
    clicks.run(pipeline)
    assert clicks.ids() == ["e1", "e2", "e3", "e4"]


def test_a_stream_of_a_table_is_resumed_at_the_offsets_of_its_last_batch(clicks):
    lab = clicks.lab
    lab.sql("create table {space}.raw (event_id string, page string, happened_at timestamp, received_at bigint)")
    insert = "insert into {space}.raw values ('e%d', 'home', timestamp'2026-04-25 12:00:00', 1)"
    lab.sql(insert % 1)
    clicks.source = Table(lab.name("raw"))
    pipeline = clicks.declare(options={})
    clicks.run(pipeline)
    for number in (8, 9):
        lab.sql(insert % number)
        clicks.run(pipeline)
    shutil.rmtree(clicks.checkpoint)
    lab.sql(insert % 2)
    with pytest.raises(StreamRefused, match="is new"):
        clicks.run(pipeline)
    done = clicks.run(pipeline, resume=True)
    # Only what had come since is read
    assert (done.rows_in, done.rows_out) == (1, 1)
    assert clicks.ids() == ["e1", "e2", "e8", "e9"]
    # An older copy of a checkpoint is noticed, too: its next batch would be one that the table has
    (clicks.checkpoint / "offsets" / "3").unlink()
    (clicks.checkpoint / "commits" / "3").unlink()
    with pytest.raises(StreamRefused, match="it is an older copy"):
        clicks.run(pipeline)


def test_a_checkpoint_of_another_query_and_a_damaged_one_are_refused(clicks):
    pipeline = clicks.declare()
    clicks.deliver(click(1))
    clicks.run(pipeline)
    about = clicks.checkpoint / "metadata"
    (clicks.checkpoint / ".metadata.crc").unlink()
    own = about.read_text()
    about.write_text(json.dumps({"id": "another"}))
    with pytest.raises(StreamRefused, match="is of query another"):
        clicks.run(pipeline)
    about.write_text("{")
    with pytest.raises(StreamRefused, match="is damaged: its file metadata cannot be read"):
        clicks.run(pipeline)
    about.write_text(own)
    offsets = clicks.checkpoint / "offsets" / "0"
    (clicks.checkpoint / "offsets" / ".0.crc").unlink()
    offsets.write_text("v1\n{}")
    with pytest.raises(StreamRefused, match="the offsets of batch 0 cannot be read"):
        clicks.run(pipeline)
    assert clicks.ids() == ["e1"]
    assert clicks.lab.ledger.leases.list() == []


def test_a_changed_source_another_stream_and_a_lost_table_are_refused(clicks):
    clicks.deliver(click(1))
    clicks.run()
    # Another source behind the same checkpoint
    first, clicks.source = clicks.source, Table("landing.web.others", schema=SCHEMA)
    (clicks.folder.parent / "others").mkdir()
    with pytest.raises(StreamRefused, match=r"has read table landing\.web\.clicks, but the stream reads"):
        clicks.run()
    # Another stream on the same table
    clicks.source = first
    with pytest.raises(StreamRefused, match=r"is written by the stream web\.clicks, up to batch 0"):
        clicks.run(clicks.declare(name="more"))
    # A table that was dropped under the stream
    clicks.lab.sql(f"drop table {clicks.place.name('clicks')}")
    with pytest.raises(StreamRefused, match="dropped, replaced or restored"):
        clicks.run()


@pytest.mark.parametrize("dedup", [Process("event_id"), Windowed("event_id", hours(1), event_time="happened_at")])
def test_a_level_that_does_not_know_the_keys_of_the_table_is_refused(clicks, dedup):
    clicks.deliver(click(1))
    clicks.run()
    clicks.deliver(click(1), click(2))
    with pytest.raises(StreamRefused, match="written at another level"):
        clicks.run(clicks.declare(dedup))
    clicks.run()
    assert clicks.ids() == ["e1", "e2"]


@pytest.mark.full
def test_a_table_that_was_restored_is_noticed_and_read_on_from_what_it_holds(clicks):
    # Given a stream of a table, and its own table put back to what it held before the last two batches
    lab = clicks.lab
    lab.sql("create table {space}.raw (event_id string, page string, happened_at timestamp, received_at bigint)")
    insert = "insert into {space}.raw values ('e%d', 'home', timestamp'2026-04-25 12:00:00', 1)"
    clicks.source = Table(lab.name("raw"))
    pipeline = clicks.declare(options={})
    for number in range(1, 4):
        lab.sql(insert % number)
        clicks.run(pipeline)
    name = clicks.place.name("clicks")
    first = lab.sql(f"select snapshot_id from {name}.snapshots order by committed_at")[0][0]
    lab.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")
    mark = StreamMark("web.clicks", (clicks.checkpoint / "metadata").read_text().split('"')[3], 0)
    lab.sql(f"alter table {name} set tblproperties ('twice.stream' = '{mark.text}')")
    # When it is started, then that is noticed; resumed, what is missing is read again
    with pytest.raises(StreamRefused, match="what was read since would be missing"):
        clicks.run(pipeline)
    clicks.run(pipeline, resume=True)
    assert clicks.ids() == ["e1", "e2", "e3"]


def test_keys_that_were_kept_for_another_table_are_not_taken_for_processed_events(clicks):
    pipeline = clicks.declare(Process("event_id"))
    clicks.deliver(click(1))
    clicks.run(pipeline)
    # Given a table that was dropped, and a checkpoint that was removed to read the source again
    clicks.lab.sql(f"drop table {clicks.place.name('clicks')}")
    with pytest.raises(StreamRefused, match=r"remove .*clicks__seen and the checkpoint"):
        clicks.run(pipeline)
    shutil.rmtree(clicks.checkpoint)
    # When the keys are still there, they would hide every event
    with pytest.raises(StreamRefused, match="events would pass for processed ones"):
        clicks.run(pipeline)
    clicks.lab.sql(f"drop table {clicks.place.name('clicks__seen')}")
    clicks.run(pipeline)
    assert clicks.ids() == ["e1"]
    with pytest.raises(StreamRefused, match="holds keys of event_id, but the stream"):
        clicks.run(clicks.declare(Process(["event_id", "page"]), table=clicks.table(key=["event_id", "page"])))


def test_a_stream_that_runs_already_is_not_run_a_second_time(clicks):
    clicks.deliver(click(1))
    claim = clicks.lab.ledger.leases.claim("stream web.clicks", [Scope(None)], ttl=clicks.lab.config.lease)
    with pytest.raises(ScopeHeld, match=r"the stream web\.clicks is already running"):
        clicks.run()
    clicks.lab.ledger.leases.release(claim)
    clicks.run()
    assert clicks.ids() == ["e1"]


def test_bad_rows_stop_the_stream_and_are_read_again_once_it_is_repaired(clicks):
    clicks.deliver(click(1))
    clicks.run()
    # A null event key
    clicks.deliver(click(2), {**click(3), "event_id": None})
    with pytest.raises(KeyViolation, match="null in the business key"):
        clicks.run()
    # A gate, a null partition, a function that fails
    gated = clicks.table(gates=[gates.not_null("page")])
    with pytest.raises(KeyViolation):
        clicks.run(clicks.declare(table=gated))
    keyed = clicks.declare(make=lambda rows: rows.selectExpr("coalesce(event_id, 'e3') AS event_id", "page",
                           "happened_at", "received_at", "CAST(NULL AS DATE) AS d"))  # fmt: skip
    with pytest.raises(KeyViolation, match="d=null"):
        clicks.run(keyed)
    with pytest.raises(StepFailed, match="no_such_column"):
        clicks.run(clicks.declare(make=lambda rows: rows.select("no_such_column")))
    assert clicks.ids() == ["e1"]
    assert clicks.place.leftovers("clicks") == []
    # When the function is repaired, the batch is read again
    repaired = clicks.declare(make=lambda rows: rows.selectExpr("coalesce(event_id, 'e3') AS event_id", "page",
                              "happened_at", "received_at", "to_date(happened_at) AS d"))  # fmt: skip
    clicks.run(repaired)
    assert clicks.ids() == ["e1", "e2", "e3"]


def test_a_schema_change_in_the_source_stops_the_stream_or_adds_a_column(clicks):
    lab, raw = clicks.lab, clicks.lab.name("raw")
    lab.sql("create table {space}.raw (event_id string, page string, happened_at timestamp, received_at bigint)")
    lab.sql("insert into {space}.raw values ('e1', 'home', timestamp'2026-04-25 12:00:00', 1)")
    clicks.source = Table(raw)
    pipeline = clicks.declare(make=lambda rows: rows.selectExpr("*", "to_date(happened_at) AS d"), options={})
    clicks.run(pipeline)
    # A column that the table has is gone from the source
    lab.sql("alter table {space}.raw drop column page")
    lab.sql("insert into {space}.raw values ('e2', timestamp'2026-04-25 12:00:00', 1)")
    with pytest.raises(SchemaRefused, match="page"):
        clicks.run(pipeline)
    assert clicks.ids() == ["e1"]
    # It is back, with another type
    lab.sql("alter table {space}.raw add column page bigint")
    with pytest.raises(SchemaRefused, match="page"):
        clicks.run(pipeline)
    # The function says what becomes of it, and one more column comes with it
    lab.sql("alter table {space}.raw add column browser string")
    lab.sql("insert into {space}.raw values ('e3', timestamp'2026-04-25 12:00:00', 1, 7, 'lynx')")
    mended = "CAST(page AS STRING) AS page"
    columns = ("event_id", mended, "happened_at", "received_at", "browser", "to_date(happened_at) AS d")
    clicks.run(clicks.declare(make=lambda rows: rows.selectExpr(*columns), options={}))
    found = clicks.place.rows("clicks", "event_id", "page", "browser")
    assert found == [("e1", "home", None), ("e2", None, None), ("e3", "7", "lynx")]


def test_gates_judge_each_batch(clicks):
    table = clicks.table(gates=[gates.not_null("page")])
    clicks.deliver(click(1))
    clicks.deliver({**click(2), "page": None})
    with pytest.raises(GateFailed, match="page"):
        clicks.run(clicks.declare(table=table))
    assert clicks.ids() == ["e1"]


def test_a_table_that_is_not_what_its_contract_says_is_refused_and_a_streams_run_is_not_undone(clicks):
    columns = "event_id string, page string, happened_at timestamp, received_at bigint, d date, _twice_window string"
    clicks.lab.sql(f"create table {clicks.place.name('clicks')} ({columns}) using iceberg partitioned by (months(d))")
    clicks.deliver(click(1))
    with pytest.raises(StoreRefused, match="partition"):
        clicks.run()
    clicks.lab.sql(f"drop table {clicks.place.name('clicks')}")
    done = clicks.run()
    with pytest.raises(UsageError, match="only steps of web can be undone"):
        undo(clicks.lab.runtime, {"web": clicks.declare()}, done.run)
    assert clicks.ids() == ["e1"]


@pytest.mark.full
def test_a_checkpoint_whose_state_was_written_as_a_whole_continues_as_a_log_of_changes(clicks, monkeypatch):
    usual = RuntimeConfig.set

    def as_before(conf: RuntimeConfig, name: str, value: str) -> None:
        usual(conf, name, "false" if name.endswith("changelogCheckpointing.enabled") else value)

    # Given a checkpoint of an earlier version
    pipeline = clicks.declare(LEVELS["windowed"])
    clicks.deliver(click(1), click(2))
    with monkeypatch.context() as patched:
        patched.setattr(RuntimeConfig, "set", as_before)
        clicks.run(pipeline)
    state = clicks.checkpoint / "state"
    assert [*state.rglob("*.zip")]
    assert not [*state.rglob("*.changelog")]
    # When the stream continues, batch by batch
    clicks.deliver(click(2), click(3))
    clicks.run(pipeline)
    clicks.deliver(click(1), click(3), click(4))
    clicks.run(pipeline)
    # Then it remembers every key
    assert [*state.rglob("*.changelog")]
    assert clicks.ids() == ["e1", "e2", "e3", "e4"]


@pytest.mark.full
def test_maintain_keeps_the_snapshots_that_a_reading_stream_still_needs(clicks):
    # Given a table of a stream, which another stream has read up to its second version
    first = clicks.declare()
    clicks.deliver(click(1))
    clicks.run(first)
    landed, clicks.source = clicks.source, first.find_stream(None).writes
    second = clicks.declare(table=clicks.table("copies"), name="copies", options={})
    clicks.run(second)
    # Before its second batch is known nothing is expired at all
    (done,) = maintain(clicks.lab.runtime, [first], keep=timedelta(0))
    assert done.remarks == ["snapshots kept: the stream web.copies has begun to read it"]
    clicks.source = landed
    clicks.deliver(click(2))
    clicks.run(first)
    clicks.run(second)
    clicks.deliver(click(3))
    clicks.run(first)
    # When everything old is expired, and compacted
    (done,) = maintain(clicks.lab.runtime, [first], keep=timedelta(0))
    assert any("the stream web.copies reads it" in remark for remark in done.remarks)
    # Then the reader still finds what it has not read
    clicks.run(second)
    assert clicks.ids("copies") == ["e1", "e2", "e3"]


def test_a_source_that_no_stream_can_follow_is_refused(clicks):
    clicks.lab.declare(f'[stores.plain]\ntype = "parquet"\npath = "{clicks.lab.folder / "plain"}"\n')
    clicks.source = Table("plain.web.raw")
    with pytest.raises(StoreRefused, match="a parquet store does not say which rows were added"):
        clicks.run(clicks.declare(options={}))
    clicks.source = Table(clicks.lab.name("absent"))
    with pytest.raises(StoreRefused, match=r"its source .* does not exist"):
        clicks.run(clicks.declare(options={}))
    clicks.source = Table("landing.web.clicks", schema=SCHEMA)
    with pytest.raises(StoreRefused, match="a parquet store cannot insert"):
        clicks.run(clicks.declare(table=Table("plain.web.t", key=["event_id"], write=clicks.table().write)))
    with pytest.raises(DefinitionError, match="its source has no column gone"):
        clicks.run(clicks.declare(Windowed("event_id", hours(1), event_time="gone")))
    with pytest.raises(DefinitionError, match="event_time page must be a timestamp, it is string"):
        clicks.run(clicks.declare(Windowed("event_id", hours(1), event_time="page")))
