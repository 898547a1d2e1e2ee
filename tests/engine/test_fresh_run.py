"""A run with nothing to do is found out from the ledger and the catalog: no call to Java is made."""

from __future__ import annotations

import pytest

from tests.support.counting import java_calls
from twice import Day, Overwrite, Pipeline, Table
from twice.engine.fresh_run import find_fresh
from twice.engine.plan import plan

pytestmark = pytest.mark.spark

DAY = "2026-04-25"


def shop(lab, factor: int = 1, effect: bool = False) -> Pipeline:
    pipeline = Pipeline("shop", grain=Day)
    raw = Table(lab.name("raw"), partition=Day("d"))
    facts = Table(lab.name("facts"), partition=Day("d"), key="n", write=Overwrite())
    totals = Table(lab.name("totals"), partition=Day("d"), key="d", write=Overwrite())
    pipeline.sql("facts", reads={"raw": raw}, writes=facts, query=f"select d, n * {factor} as n from raw")
    pipeline.sql("totals", reads={"facts": facts}, writes=totals, query="select d, sum(n) as n from facts group by d")
    if effect:

        @pipeline.effect(after=totals, on_unknown="skip")
        def post(key):
            pass

    return pipeline


def fresh(lab, pipeline: Pipeline, day: str = DAY):
    """Ask whether a day is fresh, and see that Java is not asked."""
    heard = []
    with java_calls(lab.spark) as sent:
        steps = plan(pipeline, pipeline.grain.unit(day, pipeline.zone))
        found = find_fresh(lab.config, pipeline, steps, "twice run shop", tags={"who": "ana"}, listener=heard.append)
    assert sent == []
    assert [event.state for event in heard] == (["started", "fresh", "fresh", "finished"] if found else [])
    return found


@pytest.fixture
def made(lab):
    lab.source("raw", "d date, n int", "values (date'2026-04-25', 1), (date'2026-04-25', 2)")
    assert fresh(lab, shop(lab)) is None  # no ledger, no tables
    lab.run(shop(lab), DAY)
    return lab


def test_a_run_whose_tables_are_at_their_recorded_versions_is_fresh(made):
    found = fresh(made, shop(made))
    assert [(step.step, step.status, step.rows) for step in found.steps] == [
        ("facts", "fresh", 2),
        ("totals", "fresh", 1),
    ]
    recorded = made.ledger.runs.get(found.run)
    assert (recorded.status, recorded.tags, [attempt.status for attempt in recorded.attempts]) == (
        "done", {"who": "ana"}, ["fresh", "fresh"],
    )  # fmt: skip
    # As the run that asks Spark says, with the same numbers.
    asked = made.run(shop(made), DAY, skip_fresh=True)
    assert [(step.status, step.rows, step.digest) for step in asked.steps] == [
        (step.status, step.rows, step.digest) for step in found.steps
    ]


def test_whatever_moved_is_left_to_spark(made):
    assert fresh(made, shop(made, factor=2)) is None  # other code
    assert fresh(made, shop(made, effect=True)) is None  # an effect is owed
    assert fresh(made, shop(made), "2026-04-26") is None  # never made
    made.insert("raw", "values (date'2026-04-25', 3)")
    assert fresh(made, shop(made)) is None  # another input
    made.run(shop(made), DAY)
    assert fresh(made, shop(made)) is not None
    made.sql("delete from {space}.totals")
    assert fresh(made, shop(made)) is None  # changed by hand
