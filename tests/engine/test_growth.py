"""What grows with the data stays with the data: the driver sees one row, one call and one look for each question."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tests.support.counting import collected, fetched, java_calls
from twice import Day, InsertOnly, Overwrite, Pipeline, Table, days
from twice.content.profile import profile
from twice.model.names import TableName
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.iceberg import jvm

pytestmark = pytest.mark.spark

RAW = "d date, tenant string, id int"


def landed(lab, tenants: dict[int, int]) -> Table:
    """Land a row for each tenant of each day."""
    rows = [(date(2026, 4, day), f"t{n}", n) for day, count in tenants.items() for n in range(count)]
    lab.spark.createDataFrame(rows, RAW).coalesce(1).writeTo(lab.name("raw")).using("iceberg").create()
    return Table(lab.name("raw"), event_time="d")


def by_tenant(raw: Table, name: str) -> Pipeline:
    facts = Table(name, partition=Day("d"), dimensions=["tenant"], key=["id"], write=Overwrite())
    pipeline = Pipeline("growth", grain=Day)
    pipeline.sql("facts", reads={"raw": raw}, writes=facts, query="select * from raw")
    return pipeline


def test_a_run_takes_as_many_rows_and_calls_for_many_tenants_as_for_few(lab, monkeypatch):
    name = lab.name("facts")
    pipeline = by_tenant(landed(lab, {1: 2, 2: 2, 3: 25}), name)
    lab.run(pipeline, "2026-04-01")
    calls = {}
    for day in (2, 3):
        counts = collected(monkeypatch)
        with java_calls(lab.spark) as sent:
            lab.run(pipeline, f"2026-04-0{day}")
        calls[day] = len(sent)
        assert max(counts, default=0) <= 1
    # 23 more files, each listed several times and published
    assert calls[3] < calls[2] + 20
    # The digest is that of the rows, whichever tenant's they are
    output = lab.ledger.outputs.list(name)[-1]
    rows = lab.spark.table(lab.name("raw")).where("d = '2026-04-03'")
    assert (output.rows, output.digest) == (25, profile(rows, partition=(), key=())[()].digest.text)
    # And the same again publishes nothing
    assert [step.status for step in lab.run(pipeline, "2026-04-03").steps] == ["unchanged"]


def test_some_partitions_of_many_are_named_to_iceberg_in_one_text(lab):
    table = Table(lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite())
    start, calls = datetime(2026, 1, 1, tzinfo=timezone.utc), {}
    for count in (3, 30):
        target = Target.of(table, Scope(Window(start, start + timedelta(days=count))), ZoneInfo("UTC"))
        with java_calls(lab.spark) as sent:
            said = str(jvm.partitions_expression(lab.spark, target, target.partitions[1:]))
        calls[count] = len(sent)
        assert '"2026-01-02"' in said
        assert said.count("2026-01-") == count - 1
    assert calls[30] <= calls[3]  # the class is looked up once


@pytest.mark.full
def test_insert_only_and_a_step_with_a_past_read_their_own_outputs(lab):
    raw = landed(lab, dict.fromkeys(range(1, 5), 1))
    events = Table(lab.name("events"), partition=Day("d"), key=["id", "d"], write=InsertOnly())
    running = Table(lab.name("running"), partition=Day("d"), key=["id"], write=Overwrite(), schema=RAW)
    pipeline = Pipeline("growth", grain=Day)
    pipeline.sql("events", reads={"raw": raw}, writes=events, query="select * from raw")
    pipeline.sql(
        "running",
        reads={"raw": raw, "past": running.window(lookback=days(1))},
        writes=running,
        depends_on_past=True,
        query="select * from raw",
    )
    rows = {}
    for day in range(1, 5):
        with fetched(lab.ledger.database.engine) as counted:
            lab.run(pipeline, f"2026-04-0{day}")
        rows[day] = counted.of("outputs")
    assert rows[4] == rows[3]


def test_files_are_described_with_their_partitions_whatever_is_in_them(lab):
    name, odd = lab.name("odd"), 'ü\u2028 "a\\b"\n, [x]'
    lab.spark.sql(f"create table {name} (h timestamp, n int, s string, id int) using iceberg partitioned by (h, n, s)")
    hour = datetime(2026, 4, 25, 10, tzinfo=timezone.utc)
    rows = [(hour, 7, odd, 1), (None, None, None, 2)]
    lab.spark.createDataFrame(rows, "h timestamp, n int, s string, id int").writeTo(name).append()
    live = jvm.load(lab.spark, TableName.parse(name))
    everything = lab.spark._jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    found = jvm.files_in(lab.spark, live, live.currentSnapshot().snapshotId(), everything)
    assert sorted((file.partition, file.rows, file.deletes) for file in found if file.partition["n"]) == [
        ({"h": hour, "n": 7, "s": odd}, 1, ())
    ]
    assert [file.partition for file in found if not file.partition["n"]] == [{"h": None, "n": None, "s": None}]
    paths = {row[0] for row in lab.spark.sql(f"select file_path from {name}.files").collect()}
    assert {file.location for file in found} == paths
