"""A unit is called fresh without Spark only where a run with Spark calls it fresh, too."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.counting import java_calls
from twice import Day, Overwrite, Pipeline
from twice.engine.fresh_run import find_fresh
from twice.engine.plan import plan
from twice.engine.status.peeked_state import PeekedState
from twice.errors import TwiceError

pytestmark = [pytest.mark.spark, pytest.mark.every_store]

MON = "2026-04-20"


@pytest.fixture
def judged(tables):
    """Judge a unit of `t`, without Spark and with it."""
    raw = tables.table("raw", partition=Day("d"), key=["id"], write=Overwrite())
    feed = tables.feed(raw, "id bigint, n int, d date")
    feed.put(MON, (1, 1), (2, 2))
    tables.run(feed, MON)
    pipeline = Pipeline("copies", grain=Day)
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("copied", reads={"raw": raw}, writes=table, query="select id, n, d from raw")
    assert tables.lab.run(pipeline, MON).status == "done"

    def judge() -> tuple[bool, str]:
        lab, steps = tables.lab, plan(pipeline, pipeline.grain.unit(MON, pipeline.zone))
        with java_calls(lab.spark) as sent:
            state = PeekedState.of(lab.config, pipeline.tables())
            found = find_fresh(lab.ledger, state, pipeline, steps, "twice run", tags={}, listener=lambda _: None)
        assert sent == []
        try:
            return found is not None, lab.run(pipeline, MON, skip_fresh=True).steps[0].status
        except TwiceError as error:
            return found is not None, type(error).__name__

    return judge


def test_s44_what_was_edited_by_hand_is_noticed(tables, judged):
    assert judged() == (True, "fresh")
    tables.place.edit("t", 1, n=7)
    assert judged() == (False, "published")
    assert judged() == (True, "fresh")
    tables.place.delete("t", 2)
    assert judged() == (False, "published")
    assert judged() == (True, "fresh")
    tables.place.edit("raw", 1, n=8)
    assert judged() == (False, "published")


def test_a_table_that_a_run_would_refuse_is_left_to_it(tables, judged):
    assert judged() == (True, "fresh")
    _spoil(tables.place)
    is_fresh, found = judged()
    assert (is_fresh, found.endswith("Refused")) == (False, True), found


def _spoil(place) -> None:
    """Change a table so that its rows stay as they are, and a run cannot write it any more."""
    if place.kind == "iceberg":
        place.spark.sql(f"alter table {place.name('t')} rename column d to day")
    elif place.kind == "delta":
        place.spark.sql(f"alter table delta.`{place.path('t')}` set tblproperties ('delta.appendOnly'='true')")
    elif place.kind == "parquet":
        (place.path("t") / "stray.parquet").write_bytes(b"")
    else:
        name = "t" if place.schema is None else f"{place.schema}.t"
        with place.engine.begin() as connection:
            if place.kind == "sqlite":  # a day that no filter of twice finds
                connection.execute(sa.text("insert into t (id, n, d) values (3, 3, '2026-4-20')"))
            else:
                connection.execute(sa.text(f"alter table {name} drop constraint t_pkey"))
