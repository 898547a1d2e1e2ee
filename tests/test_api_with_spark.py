"""The functions of `twice` on real tables: backfill, status, undo."""

from __future__ import annotations

import doctest
import sys
from dataclasses import replace
from types import ModuleType

import pytest
from pyspark.sql import functions as F

import twice
from twice import Day, Overwrite, Pipeline, Table
from twice import config as configuration

pytestmark = pytest.mark.spark

DAYS = "select id, date'2026-04-25' + cast(id % 3 as int) as d, cast(id as int) as n from range(9)"


@pytest.fixture
def how(lab):
    """What every call on the test's own project is given."""
    return {"spark": lab.spark, "ledger": lab.ledger, "config": lab.config}


@pytest.fixture
def shop(lab):
    """A pipeline by day whose step fails for a day that is named bad."""
    raw = lab.source("raw", "id bigint, d date, n int", DAYS)
    pipeline = Pipeline("shop", grain=Day)
    pipeline.bad = []

    @pipeline.step(
        reads={"raw": raw}, writes=Table(lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite())
    )
    def facts(raw, window):
        if window.start.date().isoformat() in pipeline.bad:
            raise ValueError("a bad day")
        return raw.withColumn("n", F.col("n") * 2)

    return pipeline


def test_backfill_status_and_undo_do_what_the_command_line_does(lab, shop, how):
    done = twice.backfill(shop, "2026-04-25", "2026-04-28", tags={"project": "restate"}, **how)

    assert (done.status, [tally.done for tally in done.tallies]) == ("done", [3])
    assert lab.ledger.runs.list()[0].tags["project"] == "restate"
    assert twice.status(shop, **how).counts == {"done": 3}
    assert twice.backfill(shop, "2026-04-25", "2026-04-28", **how).status == "nothing to do"

    lab.sql(f"delete from {lab.name('raw')} where id = 0")
    again = twice.run(shop, "2026-04-25", **how)
    assert len(lab.rows("facts")) == 8
    lab.sql(f"delete from {lab.name('facts')} where id = 1")
    assert twice.status(shop, live=True, **how).counts == {"done": 2, "stale": 1}

    with lab.untouched("facts"):
        would = twice.undo(again, dry_run=True, pipeline=shop, **how)
    assert [(each.table, each.status) for each in would] == [(lab.name("facts"), "would be restored")]
    assert [each.status for each in twice.undo(again.run[:10], pipeline=shop, **how)] == ["restored"]
    assert sorted(row["id"] for row in lab.rows("facts")) == [0, 2, 3, 4, 5, 6, 7, 8]


def test_the_session_of_the_documentation(lab, shop, monkeypatch):
    module = ModuleType("jobs_of_the_documentation")
    module.shop = shop
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = replace(lab.config, pipelines={"shop": f"{module.__name__}:shop"})
    monkeypatch.setattr(configuration, "load", lambda _file=None: config)
    names = {"shop": shop, "facts": shop.steps["facts"].function}
    session = doctest.DocTestParser().get_doctest(twice.__doc__, names, "twice", None, None)
    assert len(session.examples) == 7
    doctest.DebugRunner().run(session)


def test_the_spark_of_a_notebook_is_used_and_not_stopped(lab, shop):
    assert twice.run(shop, "2026-04-25", config=lab.config).status == "done"
    assert twice.preview(shop.steps["facts"], "2026-04-26", config=lab.config).count() == 3
    assert lab.spark.range(3).count() == 3


def test_a_backfill_raises_what_it_could_not_make_and_publishes_the_rest(lab, shop, how):
    shop.bad.append("2026-04-26")
    told = []

    with pytest.raises(twice.PermanentError) as caught:
        twice.backfill(shop, "2026-04-25", "2026-04-28", progress=told.append, **how)

    assert "failed: facts 2026-04-26: step facts raised ValueError: a bad day" in caught.value.message
    assert caught.value.next_step.startswith("twice backfill start shop --from 2026-04-26 --to 2026-04-27")
    assert {str(row["d"]) for row in lab.rows("facts")} == {"2026-04-25", "2026-04-27"}
    assert [note.kind for note in told][-1] == "finished"
    assert twice.status(shop, **how).counts == {"done": 2, "failed": 1}
