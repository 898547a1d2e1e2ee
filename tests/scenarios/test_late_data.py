"""S21: rows that arrive after their day was closed, and the three things a table can say to them."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, Pipeline, Table, Window, days
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.engine.status import status
from twice.engine.status.table_state import TableState
from twice.errors import LateData

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, at timestamp, arrived date"


def row(number: int, day: int, arrived: int) -> str:
    return f"({number}, timestamp'2026-04-{day:02d} 12:00:00', date'2026-04-{arrived:02d}')"


class Arrivals:
    """A raw table by day of arrival, and facts by the day on which things happened, two days late at most."""

    def __init__(self, lab, late: str, *, landed: bool = False) -> None:
        self.lab, self.landed = lab, landed
        self.feed: dict[int, list[tuple[int, int]]] = {}
        self.pipeline = Pipeline("late", grain=Day)
        write = {"write": Overwrite()} if landed else {}
        raw = Table(lab.name("raw"), partition=Day("arrived"), event_time="at", schema=COLUMNS, **write)
        facts = Table(
            lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite(), lateness=days(2), on_late=late
        )
        if landed:

            @self.pipeline.extract(writes=raw)
            def land(window, spark):
                rows = [row(number, day, window.start.day) for number, day in self.feed.get(window.start.day, [])]
                source = f"values {', '.join(rows)}" if rows else f"values {row(0, 1, 1)} limit 0"
                return spark.sql(f"select col1 as id, col2 as at, col3 as arrived from ({source})").selectExpr(
                    "cast(id as bigint) id", "at", "arrived"
                )

        else:
            lab.source("raw", COLUMNS, by="arrived")
        self.pipeline.sql(
            "facts", reads={"raw": raw}, writes=facts, query="select id, cast(at as date) as d, at from raw"
        )

    def arrive(self, number: int, day: int, arrived: int) -> None:
        """Let a row that happened on one day arrive on another."""
        if self.landed:
            self.feed.setdefault(arrived, []).append((number, day))
            self.lab.run(self.pipeline, f"2026-04-{arrived:02d}", steps=["land"])
        else:
            self.lab.insert("raw", f"values {row(number, day, arrived)}")

    def build(self, day: int, **how):
        return self.lab.run(self.pipeline, f"2026-04-{day:02d}", steps=["facts"], **how).steps[0]

    def status(self, day: int):
        sources = None if self.landed else TableState(self.lab.runtime)
        (found,) = [each for each in status(self.lab.ledger, self.pipeline, sources=sources) if each.step == "facts"]
        (partition,) = [each for each in found.partitions if each.name == f"2026-04-{day:02d}"]
        return partition

    def ids(self, day: int) -> list[int]:
        return [found["id"] for found in self.lab.rows("facts", f"d = date'2026-04-{day:02d}'")]


LANDED = [
    pytest.param(True, id="landed by twice"),
    pytest.param(False, id="somebody else's table", marks=pytest.mark.full),
]


@pytest.mark.full
@pytest.mark.parametrize("landed", [True, False], ids=["landed by twice", "somebody else's table"])
def test_s21_a_day_is_open_until_its_last_arrivals_are_there(lab, landed):
    arrivals = Arrivals(lab, "reopen", landed=landed)
    arrivals.arrive(1, 10, 10)
    arrivals.build(10)
    assert (arrivals.status(10).state, arrivals.status(10).open) == ("done", True)

    arrivals.arrive(2, 10, 11)  # a day late, which is in time
    assert (arrivals.status(10).state, arrivals.status(10).reasons[0].partitions) == ("stale", ("2026-04-11",))
    assert arrivals.build(10).status == "published"
    assert (arrivals.status(10).state, arrivals.status(10).open) == ("done", True)

    arrivals.arrive(3, 12, 12)  # the last day of waiting brings nothing for the 10th
    assert arrivals.build(10).status == "unchanged"
    assert (arrivals.status(10).state, arrivals.status(10).open) == ("done", False)
    assert arrivals.ids(10) == [1, 2]


def closed(lab, late: str, *, landed: bool) -> Arrivals:
    """Arrivals whose 10th is closed, and then gets one row more."""
    arrivals = Arrivals(lab, late, landed=landed)
    for arrived in (10, 11, 12):
        arrivals.arrive(arrived, 10, arrived)
    arrivals.build(10)
    assert (arrivals.status(10).state, arrivals.status(10).open) == ("done", False)
    arrivals.arrive(99, 10, 12)
    return arrivals


@pytest.mark.parametrize("landed", LANDED)
def test_s21_reopen_makes_the_day_stale_and_it_is_rebuilt(lab, landed):
    arrivals = closed(lab, "reopen", landed=landed)

    found = arrivals.status(10)
    assert (found.state, found.reasons[0].kind, found.reasons[0].partitions) == ("stale", "data", ("2026-04-12",))
    assert arrivals.build(10, skip_fresh=True).status == "published"
    assert arrivals.ids(10) == [10, 11, 12, 99]
    assert arrivals.status(10).state == "done"


@pytest.mark.parametrize("landed", LANDED)
def test_s21_ignore_leaves_it_out_and_counts_it(lab, landed):
    arrivals = closed(lab, "ignore", landed=landed)

    found = arrivals.status(10)
    assert (found.state, found.reasons) == ("done", ())
    (late,) = found.ignored
    assert (late.kind, late.partitions) == ("late", ("2026-04-12",))
    assert late.rows == (1 if landed else None)  # what somebody else wrote is not counted without reading it
    assert arrivals.build(10, skip_fresh=True).status == "fresh"
    assert arrivals.ids(10) == [10, 11, 12]


@pytest.mark.parametrize("landed", LANDED)
def test_s21_fail_stops_until_somebody_decides(lab, landed):
    arrivals = closed(lab, "fail", landed=landed)

    found = arrivals.status(10)
    assert (found.state, found.reasons[0].kind) == ("failed", "late")
    assert found.reasons[0].text.startswith(f"{lab.name('raw')} 2026-04-12 changed after the partition was closed")
    with pytest.raises(LateData) as refused:
        arrivals.build(10)
    assert "2026-04-10 was closed" in refused.value.message
    assert "--accept-late" in refused.value.next_step
    assert arrivals.ids(10) == [10, 11, 12]
    assert arrivals.status(10).state == "failed"

    assert arrivals.build(10, accept_late=True).status == "published"
    assert arrivals.ids(10) == [10, 11, 12, 99]
    assert arrivals.status(10).state == "done"
    assert arrivals.build(10).status == "unchanged"


@pytest.mark.full
def test_s21_a_backfill_leaves_out_what_is_refused_until_somebody_decides(lab):
    arrivals = closed(lab, "fail", landed=True)
    project = Project(lab.runtime, arrivals.pipeline)
    zone = arrivals.pipeline.zone
    window = Window(Day.parse("2026-04-10", zone), Day.parse("2026-04-11", zone))
    refused = project.start(Request("late", window, steps=("facts",)))
    assert (refused.status, refused.failures[0].span) == ("partly", "2026-04-10")
    assert arrivals.ids(10) == [10, 11, 12]
    assert project.start(Request("late", window, steps=("facts",), accept_late=True)).status == "done"
    assert arrivals.ids(10) == [10, 11, 12, 99]


def test_s21_an_open_day_takes_what_comes_whatever_the_policy(lab):
    arrivals = Arrivals(lab, "fail", landed=True)
    arrivals.arrive(1, 10, 10)
    arrivals.build(10)
    arrivals.arrive(2, 10, 10)
    assert arrivals.status(10).state == "stale"
    assert arrivals.build(10).status == "published"


@pytest.mark.full
def test_s21_a_longer_run_over_closed_days_finds_nothing_late(lab):
    arrivals = Arrivals(lab, "fail", landed=True)
    for arrived in (10, 11, 12, 13):
        arrivals.arrive(arrived, arrived, arrived)
    arrivals.build(10)
    arrivals.build(11)
    assert [arrivals.status(day).open for day in (10, 11)] == [False, False]

    wide = lab.run(arrivals.pipeline, from_="2026-04-10", to="2026-04-12", steps=["facts"]).steps[0]

    assert wide.status == "unchanged"
    assert [arrivals.status(day).state for day in (10, 11)] == ["done", "done"]
    arrivals.arrive(99, 11, 13)
    with pytest.raises(LateData, match="2026-04-11 was closed"):
        arrivals.build(11)
