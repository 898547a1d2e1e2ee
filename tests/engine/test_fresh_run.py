"""Nothing to do is found out from the ledger and the tables' own metadata: no call to Java is made."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import twice
from tests.support.counting import java_calls
from twice import Day, Overwrite, Pipeline, Table, Window, days
from twice.backfills.api import plan_without_spark
from twice.backfills.request import Request
from twice.engine.fresh_run import find_fresh
from twice.engine.plan import plan
from twice.engine.status.peeked_state import PeekedState
from twice.errors import TwiceError

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
        state = PeekedState.of(lab.config, pipeline.tables())
        how = {"tags": {"who": "ana"}, "listener": heard.append}
        found = find_fresh(lab.ledger, state, pipeline, steps, "twice run shop", **how)
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


def test_a_day_stays_fresh_when_other_days_are_published_and_land(made):
    made.insert("raw", "values (date'2026-04-26', 7)")
    made.run(shop(made), "2026-04-26")
    assert [step.rows for step in fresh(made, shop(made)).steps] == [2, 1]
    assert [step.rows for step in fresh(made, shop(made), "2026-04-26").steps] == [1, 1]


def range_of_days(lab, pipeline: Pipeline, last: int = 27) -> Request:
    window = Window(*(pipeline.grain.parse(f"2026-04-{day}", pipeline.zone) for day in (25, last)))
    return Request(lab.name("shop"), window)


def test_a_backfill_with_nothing_left_and_a_live_status_need_no_spark(made):
    pipeline = shop(made)
    made.insert("raw", "values (date'2026-04-26', 7)")
    with java_calls(made.spark) as sent:
        assert plan_without_spark(made.config, pipeline, range_of_days(made, pipeline)) is None  # a day is missing
    assert sent == []
    made.run(pipeline, "2026-04-26")
    with java_calls(made.spark) as sent:
        plan = plan_without_spark(made.config, pipeline, range_of_days(made, pipeline))
        assert plan_without_spark(made.config, pipeline, range_of_days(made, pipeline, 28)) is None
        status = twice.status(pipeline, live=True, config=made.config)
    assert sent == []
    assert [(step.step.name, step.counts) for step in plan.steps] == [("facts", {"done": 2}), ("totals", {"done": 2})]
    assert status.pipelines[0].counts == {"done": 4}
    made.sql("delete from {space}.totals where d = date'2026-04-25'")
    with java_calls(made.spark) as sent:
        assert plan_without_spark(made.config, pipeline, range_of_days(made, pipeline)) is None  # changed by hand
        touched = twice.status(pipeline, live=True, config=made.config)
    assert sent == []
    assert touched.pipelines[0].counts == {"done": 3, "stale": 1}


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


def reading_all_ways(lab, late: str = "reopen") -> Pipeline:
    """A step for one tenant that reads a window by ingestion, a table as of a time, and the newest of another."""
    pipeline = Pipeline("ways", grain=Day)
    raw = Table(lab.name("raw"), partition=Day("came"), event_time="at")
    rates = Table(lab.name("rates"), valid=("valid_from", "valid_to"))
    names = Table(lab.name("names"))
    out = Table(
        lab.name("out"),
        partition=Day("d"),
        dimensions=["tenant"],
        key="n",
        write=Overwrite(),
        lateness=days(1),
        on_late=late,
    )
    pipeline.sql(
        "out",
        reads={"raw": raw, "rates": rates.as_of("at"), "names": names.latest()},
        writes=out,
        query="select to_date(at) as d, 'acme' as tenant, n * (select max(rate) from rates) as n from raw",
    )
    return pipeline


@pytest.mark.parametrize("late", ["reopen", "ignore", "fail"])
def test_every_way_to_read_is_judged_as_with_spark(lab, late):
    first = f"values (1, timestamp'{DAY} 10:00', date'{DAY}')"
    lab.source("raw", "n int, at timestamp, came date", first, by="came")
    lab.sql("create table {space}.rates (rate int, valid_from timestamp, valid_to timestamp)")
    lab.sql(f"insert into {{space}}.rates values (2, timestamp'{DAY}', null)")
    lab.sql("create table {space}.names (name string)")
    lab.sql("insert into {space}.names values ('a')")
    pipeline = reading_all_ways(lab, late)
    tenant = {"tenant": "acme"}
    lab.run(pipeline, DAY, dimensions=tenant)

    def judged() -> tuple[bool, str]:
        steps = plan(pipeline, pipeline.grain.unit(DAY, pipeline.zone), dimensions=tenant)
        state = PeekedState.of(lab.config, pipeline.tables())
        with java_calls(lab.spark) as sent:
            found = find_fresh(lab.ledger, state, pipeline, steps, "twice run", tags={}, listener=lambda _: None)
        assert sent == []
        try:
            return found is not None, lab.run(pipeline, DAY, dimensions=tenant, skip_fresh=True).steps[0].status
        except TwiceError as error:
            return found is not None, type(error).__name__

    assert judged() == (True, "fresh")
    lab.sql("insert into {space}.names values ('b')")  # not tracked
    assert judged() == (True, "fresh")
    lab.sql(f"insert into {{space}}.raw values (2, timestamp'{DAY} 11:00', date'2026-05-09')")  # of no interest
    assert judged() == (True, "fresh")
    lab.sql(f"insert into {{space}}.rates values (3, timestamp'{DAY}', null)")
    assert judged() == (False, "published")
    assert judged() == (True, "fresh")
    lab.sql(f"insert into {{space}}.raw values (3, timestamp'{DAY} 12:00', date'2026-04-26')")  # closes the day
    assert judged() == (False, "published")
    lab.sql(f"insert into {{space}}.raw values (4, timestamp'{DAY} 13:00', date'2026-04-26')")  # late
    assert judged() == (False, {"reopen": "published", "ignore": "fresh", "fail": "LateData"}[late])
    if late == "reopen":
        lab.sql("drop table {space}.names")
        assert judged() == (False, "StoreRefused")


PROJECT = """
from twice import Day, Overwrite, Pipeline, Table

raw = Table("{raw}", partition=Day("d"))
facts = Table("{facts}", partition=Day("d"), key="n", write=Overwrite())
shop = Pipeline("shop", grain=Day)
shop.sql("facts", reads={{"raw": raw}}, writes=facts, query="select d, n from raw")
"""


def test_the_commands_need_no_java_for_it(lab):
    lab.source("raw", "d date, n int", f"values (date'{DAY}', 1)")
    (lab.folder / "fresh_shop.py").write_text(PROJECT.format(raw=lab.name("raw"), facts=lab.name("facts")))
    lab.declare('[pipelines]\nshop = "fresh_shop:shop"\n')
    loader = importlib.util.spec_from_file_location("fresh_shop", lab.folder / "fresh_shop.py")
    module = importlib.util.module_from_spec(loader)
    loader.loader.exec_module(module)
    lab.run(module.shop, DAY)
    environment = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PYTHONPATH": str(lab.folder)}

    def said(*words: str) -> str:
        command = [sys.executable, "-m", "twice", "--config", str(lab.config.source), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=lab.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    range_ = ("--from", DAY, "--to", "2026-04-26")
    assert "facts fresh (1 rows)" in said("run", "shop", "--for", DAY, "--skip-fresh")
    assert "facts fresh (1 rows)" in said("run", "shop", *range_, "--skip-fresh")
    assert "nothing to do" in said("backfill", "shop", *range_)
    assert "nothing to do" in said("backfill", "shop", *range_, "--dry-run")
    assert "1 done" in said("status", "shop", "--live")
