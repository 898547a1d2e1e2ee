"""The functions of `twice`: what they ask for, and what they refuse before Spark is started."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone

import pytest

import twice
from tests.support.history import History
from twice import Day, Pipeline, Scope, Window, hours
from twice import config as configuration
from twice.api import asked_window
from twice.backfills.summary import Failure
from twice.engine.spark import session
from twice.ledger import Tally
from twice.loading import configured_name, find_pipeline


@pytest.fixture
def berlin():
    return Pipeline("shop", grain=Day, time_zone="Europe/Berlin")


def test_a_run_takes_one_unit_of_the_grain_a_window_or_a_range(berlin):
    day = asked_window(berlin, "2026-04-25", None, None)
    assert day.start == datetime(2026, 4, 24, 22, tzinfo=timezone.utc)
    assert hours(24).after(day.start, berlin.zone) == day.end
    assert asked_window(berlin, day, None, None) is day
    two = asked_window(berlin, None, "2026-04-25", "2026-04-27")
    assert (two.start, two.end) == (day.start, datetime(2026, 4, 26, 22, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((), 'a run needs a window: one unit, such as "2026-04-25", or from_= and to= '),
        (("2026-04-25", "2026-04-25", None), "give either one unit, or from_= and to=, not both"),
        ((None, "2026-04-25", None), "a run needs a window"),
        ((None, None, "2026-04-25"), "a run needs a window"),
        ((date(2026, 4, 25),), 'a unit must be a text such as "2026-04-25" or a Window, got datetime.date'),
        (("yesterday",), "yesterday"),
    ],
)
def test_a_run_without_a_clear_window_is_refused_before_anything_starts(berlin, tmp_path, monkeypatch, asked, message):
    monkeypatch.chdir(tmp_path)
    unit, from_, to = (*asked, None, None, None)[:3]
    with pytest.raises(twice.UsageError) as caught:
        twice.run(berlin, unit, from_=from_, to=to)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_window_and_a_range_are_not_both_taken(berlin):
    window = Window(datetime(2026, 4, 24, 22, tzinfo=timezone.utc), datetime(2026, 4, 25, 22, tzinfo=timezone.utc))
    with pytest.raises(twice.UsageError, match="not both"):
        asked_window(berlin, window, "2026-04-25", "2026-04-26")


PROJECT = """
[pipelines]
shop = "{module}:shop"
[ledger]
url = "sqlite:///state/ledger.db"
"""
MODULE = """
from twice import Day, Overwrite, Pipeline, Table
shop = Pipeline("shop", grain=Day)
raw = Table("lake.raw.orders", partition=Day("d"))
facts = Table("lake.core.facts", partition=Day("d"), key=["id"], write=Overwrite())
@shop.step(reads={"raw": raw}, writes=facts)
def build(raw):
    return raw
"""
_numbers = itertools.count(1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a twice.toml and a pipeline, which is the working directory; Spark cannot be started there."""
    module = f"jobs_of_api_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(MODULE)
    (tmp_path / "twice.toml").write_text(PROJECT.format(module=module))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "start", None)
    return tmp_path


def pipeline_of(project):
    return find_pipeline(configuration.load(project / "twice.toml"), "shop")


def published(pipeline, day, url):
    history = History(url, pipeline)
    return history.publish("build", Scope(Day.unit(day, pipeline.zone)))


def test_the_status_of_a_project_is_that_of_all_its_pipelines(project):
    assert twice.status().pipelines[0].pipeline == "shop"
    assert not (project / "state").exists()  # asking creates no ledger
    published(pipeline_of(project), "2026-04-25", "sqlite:///state/ledger.db")
    published(pipeline_of(project), "2026-04-27", "sqlite:///state/ledger.db")

    found = twice.status()

    assert found.counts == {"done": 2, "missing": 1}
    assert [(each.name, each.state) for each in found.steps[0].partitions] == [
        ("2026-04-25", "done"),
        ("2026-04-26", "missing"),
        ("2026-04-27", "done"),
    ]
    assert twice.status(pipeline_of(project), from_="2026-04-26", to="2026-04-28").counts == {"done": 1, "missing": 1}
    assert twice.status(only_stale=True).counts == {}


def test_a_configuration_is_found_here_above_or_named_by_its_file(project, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    published(pipeline_of(project), "2026-04-25", f"sqlite:///{project}/state/ledger.db")
    for named in (project / "twice.toml", str(project / "twice.toml"), configuration.load(project / "twice.toml")):
        assert twice.status(config=named).counts == {"done": 1}
        assert len(twice.open_ledger(config=named).runs.list()) == 1
    with pytest.raises(twice.UsageError, match="names no pipelines"):
        twice.status()
    assert list(elsewhere.iterdir()) == []


def test_a_ledger_is_opened_by_its_url_or_as_the_project_has_it(project):
    with pytest.raises(twice.TwiceError, match="no ledger"):
        twice.open_ledger(create=False)
    assert not (project / "state").exists()
    assert twice.open_ledger().url == f"sqlite:///{project}/state/ledger.db"
    assert twice.open_ledger(f"sqlite:///{project}/other.db").runs.list() == []


def test_status_and_ledger_need_no_spark(project):
    code = """
import sys, twice
twice.status(), twice.open_ledger(), twice.backfill, twice.BackfillResult, twice.Status
assert not {name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j"}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"from_": "2026-04-25", "to": "2026-04-25"}, "the range from 2026-04-25 to 2026-04-25 is empty"),
        ({"from_": "2026-04-25T01:00"}, "is not the start of a day"),
        ({"steps": ["bild"]}, "pipeline shop has no step 'bild'; its steps are: build"),
        ({"upstream": True}, "widen a choice"),
        ({"pool": "slow"}, "there is no pool 'slow'; there are: none"),
        ({"order": "shuffled"}, "choose forward or backward"),
        ({"only": "some"}, "choose from missing, failed, stale, all"),
        ({"parallel": 0}, "--parallel must be 1 or more, got 0"),
        ({"dimensions": {"tenant": "acme"}}, "has no dimension 'tenant'"),
    ],
)
def test_a_backfill_that_could_not_run_is_refused_before_spark_is_started(project, how, message):
    with pytest.raises(twice.UsageError) as caught:
        twice.backfill(pipeline_of(project), **({"from_": "2026-04-25", "to": "2026-04-28"} | how))
    assert message in str(caught.value)
    assert not (project / "state").exists()


def test_a_backfill_of_a_range_that_another_one_works_on_is_refused_before_spark_is_started(project):
    pipeline, ledger = pipeline_of(project), twice.open_ledger()
    scope = Scope(Window(*(Day.parse(day, pipeline.zone) for day in ("2026-04-01", "2026-05-01"))))
    ledger.backfills.start(
        "shop", scope, ["lake.core.facts"], request={}, code={}, parallel=1, ttl=timedelta(minutes=5)
    )
    with pytest.raises(twice.ScopeHeld, match="overlaps with backfill"):
        twice.backfill(pipeline, "2026-04-25", "2026-04-28")


def test_a_pipeline_is_found_again_by_the_name_that_the_configuration_has_for_it(project):
    (project / "twice.toml").write_text(
        (project / "twice.toml").read_text().replace("shop =", 'gone = "nowhere:gone"\nsales =')
    )
    config = configuration.load(project / "twice.toml")
    assert configured_name(config, find_pipeline(config, "sales")) == "sales"
    assert configured_name(config, Pipeline("other", grain=Day)) == "other"


def test_an_undo_of_no_run_or_of_a_stranger_is_refused_before_spark_is_started(project):
    with pytest.raises(twice.UsageError, match="no run begins with '06': nothing has run yet"):
        twice.undo("06")
    run = published(pipeline_of(project), "2026-04-25", "sqlite:///state/ledger.db")
    with pytest.raises(twice.UsageError, match="belongs to the pipeline shop, which is not configured here"):
        twice.undo(run, pipeline=Pipeline("other", grain=Day))
    with pytest.raises(twice.UsageError, match="no run begins with 'zz'"):
        twice.undo("zz")


def test_a_backfill_that_left_something_out_raises_what_and_why():
    failures = (Failure("facts", "2026-04-26", "StepFailed: boom"),)
    result = twice.BackfillResult(
        "shop", "partly", "06k", (Tally("facts", done=2, failed=1, rows=9),), failures, "again"
    )
    with pytest.raises(twice.PermanentError) as caught:
        result.raise_failures()
    assert str(caught.value).splitlines() == [
        "backfill 06k of shop: finished in part: 2 partitions, 9 rows",
        "  facts: 2 of 3 partitions, 1 failed, 9 rows",
        "  failed: facts 2026-04-26: StepFailed: boom",
        "  unchanged: the partitions that were built are published",
        "  next: again",
    ]
    with pytest.raises(twice.Interrupted):
        twice.BackfillResult("shop", "interrupted", "06k").raise_failures()
    twice.BackfillResult("shop", "done", "06k").raise_failures()
    twice.BackfillResult("shop", "nothing to do").raise_failures()


def test_a_preview_is_of_a_step_and_of_a_window(project, berlin):
    build = pipeline_of(project).steps["build"]
    with pytest.raises(twice.UsageError, match=r"len is not a step: decorate it with @pipeline\.step"):
        twice.preview(len, "2026-04-25")
    with pytest.raises(twice.UsageError, match="a run needs a window"):
        twice.preview(build)
    with pytest.raises(twice.UsageError, match="has no dimension 'tenant'"):
        twice.preview(build.function, "2026-04-25", dimensions={"tenant": "acme"})
    assert not (project / "state").exists()


def test_a_pickled_step_leaves_its_pipeline_behind(project):
    build = pipeline_of(project).steps["build"]
    assert build.declared_in is pipeline_of(project)
    assert copy.copy(build).declared_in is None
    assert copy.copy(build).writes is build.writes
