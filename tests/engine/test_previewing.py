"""A preview: the rows that a run would publish, and no trace of it."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import functions as F

import twice
from twice import Day, Merge, Overwrite, Pipeline, Table, days

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
COLUMNS = "id bigint, d date, n int, u timestamp"
TWO_DAYS = "select id, date'2026-04-25' + cast(id % 2 as int), cast(id as int), timestamp'2026-04-25' from range(8)"


class Shop:
    """One raw table, a replaced table with a key and a gate, and a merged one."""

    def __init__(self, lab):
        self.lab = lab
        self.raw = lab.source("raw", COLUMNS, TWO_DAYS)
        self.pipeline = Pipeline("shop", grain=Day)
        self.facts = Table(
            lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite(), gates=[twice.gates.row_count(max=4)]
        )

        @self.pipeline.step(reads={"raw": self.raw.window(lookback=days(1))}, writes=self.facts)
        def build(raw, window):
            return raw.where(F.col("d") == F.lit(window.start.date())).withColumn("n", F.col("n") * 10)

        self.build = build
        self.people = self.pipeline.sql(
            "people",
            reads={"raw": self.raw},
            writes=Table(lab.name("people"), key=["id"], write=Merge(version="u")),
            query="select id, n, u from raw",
        )

    def preview(self, step, unit=DAY, **how):
        known = {"spark": self.lab.spark, "ledger": self.lab.ledger, "config": self.lab.config}
        return twice.preview(step, unit, **(known | how))

    def rows(self, frame):
        return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


@pytest.fixture
def shop(lab):
    return Shop(lab)


def test_a_preview_has_the_rows_that_the_run_publishes_and_leaves_nothing(lab, shop):
    found = shop.preview(shop.build)
    merged = shop.preview(shop.people)

    assert lab.ledger.runs.list() == []
    assert lab.ledger.leases.list() == []
    assert (lab.exists("facts"), lab.exists("people")) == (False, False)

    lab.run(shop.pipeline, DAY)
    assert shop.rows(found) == lab.rows("facts")
    assert [row["id"] for row in shop.rows(found)] == [0, 2, 4, 6]
    assert shop.rows(merged) == lab.rows("people")


@pytest.mark.full
def test_a_preview_beside_a_published_table_touches_neither_it_nor_the_ledger(lab, shop):
    lab.run(shop.pipeline, DAY)
    lab.insert("raw", f"values (100, date'{DAY}', 5, timestamp'2026-04-25 12:00:00')")
    lab.sql("update {space}.raw set n = -1, u = timestamp'2026-04-26' where id = 2")
    runs, pictures = lab.ledger.runs.list(), [lab.picture(name) for name in ("facts", "people")]

    with lab.untouched("facts", "people"):
        found, merged = shop.preview(shop.build), shop.preview(shop.people)

    assert lab.ledger.runs.list() == runs
    assert [lab.picture(name) for name in ("facts", "people")] == pictures
    assert len(shop.rows(found)) == 5  # more than the gate lets through: they can be looked at
    assert [(row["id"], row["n"]) for row in shop.rows(merged)] == [(2, -1), (100, 5)]  # the others are there already
    with pytest.raises(twice.GateFailed):
        lab.run(shop.pipeline, DAY)


def test_the_rows_of_a_preview_are_computed_once(lab, shop):
    found = shop.preview(shop.build)
    lab.sql("delete from {space}.raw where true")
    assert len(shop.rows(found)) == 4
    assert shop.preview(shop.build).count() == 0


def test_a_preview_refuses_what_a_run_refuses(lab, shop):
    pipeline = Pipeline("bad", grain=Day)
    table = lab.name

    @pipeline.step(reads={"raw": shop.raw}, writes=Table(table("written"), partition=Day("d"), write=Overwrite()))
    def writes(raw):
        raw.writeTo(table("stolen")).using("iceberg").create()
        return raw

    @pipeline.step(reads={"raw": shop.raw}, writes=Table(table("random"), partition=Day("d"), write=Overwrite()))
    def draws(raw):
        return raw.withColumn("n", F.rand())

    @pipeline.step(reads={"raw": shop.raw}, writes=Table(table("broken"), partition=Day("d"), write=Overwrite()))
    def breaks(raw):
        return raw.withColumn("n", F.raise_error(F.lit("no such order")))

    with pytest.raises(twice.WriteRefused):
        shop.preview(writes)
    with pytest.raises(twice.NotDeterministic):
        shop.preview(draws)
    with pytest.raises(twice.StepFailed, match="no such order"):
        shop.preview(breaks)
    assert not any(lab.exists(name) for name in ("written", "stolen", "random", "broken"))
    assert lab.ledger.runs.list() == []


def test_a_preview_of_an_extract_calls_its_source_and_lands_nothing(lab, shop):
    calls = []
    table = Table(lab.name("landed"), partition=Day("d"), write=Overwrite(), schema="id BIGINT, d DATE")

    @shop.pipeline.extract(writes=table)
    def fetch(window):
        calls.append(window)
        yield {"id": 1, "d": window.start.date()}

    assert shop.rows(shop.preview(fetch)) == [{"id": 1, "d": date(2026, 4, 25)}]
    assert len(calls) == 1
    assert not lab.exists("landed")


def test_a_preview_makes_no_ledger_for_a_project_that_never_ran(lab, shop):
    lab.folder.joinpath("ledger.db").unlink()
    assert shop.preview(shop.build, ledger=None).count() == 4
    assert not lab.folder.joinpath("ledger.db").exists()
