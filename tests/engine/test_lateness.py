"""When a partition is closed: told from what was read, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timezone

import pytest

from twice import Day, Hour, Overwrite, Pipeline, Table, Whole, days
from twice.engine.attempt.lateness import awaited, is_closed
from twice.engine.plan import plan
from twice.model.contracts import contracts
from twice.model.windows import Window


def house(time_zone: str = "UTC", grain=Day) -> Pipeline:
    pipeline = Pipeline("house", grain=Day, time_zone=time_zone)
    raw = Table("lake.a.raw", partition=Day("arrived"), event_time="at")
    plain = Table("lake.a.plain", partition=Day("d"))
    people = Table("lake.a.people", event_time="at")
    facts = Table("lake.a.facts", partition=grain("d"), write=Overwrite(), lateness=days(2), on_late="ignore")
    reads = {"raw": raw, "plain": plain, "people": people, "old": raw.latest()}
    pipeline.sql("facts", reads=reads, writes=facts, query="select 1")
    return pipeline


def closed(pipeline: Pipeline, recorded: Iterable[tuple[int, str]], hour: int = 0, until: int = 24) -> bool:
    step, zone = pipeline.steps["facts"], pipeline.zone
    begin = datetime(2026, 4, 10, tzinfo=zone)
    start = begin.replace(hour=hour)
    end = datetime(2026, 4, 11, tzinfo=zone) if until == 24 else begin.replace(hour=until)
    held = {datetime(2026, 4, day, tzinfo=zone).astimezone(timezone.utc).isoformat(): text for day, text in recorded}
    return is_closed(step, step.reads["raw"], Window(start, end), held, zone)


def test_only_inputs_by_arrival_bring_late_rows():
    assert list(awaited(house().steps["facts"])) == ["raw"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_where_twice_landed_it_every_day_of_arrival_must_be_there(zone):
    full = {10: "digest:1-a", 11: "digest:0-a", 12: "digest:2-a"}
    assert closed(house(zone), full.items())
    for day in full:
        assert not closed(house(zone), (full | {day: "files:"}).items())
        assert not closed(house(zone), [item for item in full.items() if item[0] != day])


def test_in_somebody_elses_table_the_last_day_of_arrival_must_hold_something():
    assert closed(house(), [(10, "files:a"), (11, "files:"), (12, "files:b")])
    assert not closed(house(), [(10, "files:a"), (11, "files:b"), (12, "files:")])
    assert not closed(house(), [])


def test_an_hour_waits_for_the_same_days_as_its_day():
    full = [(10, "digest:1-a"), (11, "digest:1-a"), (12, "digest:1-a")]
    for hour in (0, 12, 23):
        until = hour + 1
        assert closed(house(grain=Hour), full, hour, until)
        assert not closed(house(grain=Hour), full[:-1], hour, until)


def test_the_contract_and_the_plan_say_how_far_a_read_looks_for_late_rows():
    pipeline = house()
    reach = "lake.a.raw in the window, with late rows from the next 2 days of arrived"
    assert f"raw = {reach}; plain = lake.a.plain in the window; people = lake.a.people in the window; old = " in (
        contracts([pipeline])
    )
    (stage,) = plan(pipeline, Day.unit("2026-04-10", pipeline.zone))
    assert f"read raw = {reach}; plain = lake.a.plain in the window;" in stage.text
    assert stage.to_json()["reads"]["raw"] == reach
    none = dataclasses.replace(stage, step=dataclasses.replace(stage.step, writes=Table("lake.a.x", write=Whole())))
    assert "late rows" not in none.text


def test_the_contract_says_what_becomes_of_late_rows():
    assert "2 days, then ignore" in contracts([house()])
