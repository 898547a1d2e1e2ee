"""Status from the ledger alone: states, reasons in words, ranges, and many partitions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest

from twice import Day, Merge, Overwrite, Pipeline, Table
from twice.cli.status import lines
from twice.engine.fingerprint import fingerprint
from twice.engine.status import status
from twice.ledger import InputRecord, ManualClock, Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

ONE = datetime(2026, 4, 1, tzinfo=timezone.utc)
TTL = timedelta(minutes=1)


class Story:
    """A pipeline raw → facts → people, and a ledger that is filled by hand."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock(datetime(2026, 5, 1, tzinfo=timezone.utc))
        self.ledger = open_ledger(url, clock=self.clock)
        self.shop = Pipeline("shop", grain=Day)
        self.raw = Table("lake.a.raw", partition=Day("d"), write=Overwrite())
        self.facts = Table("lake.a.facts", partition=Day("d"), write=Overwrite(), dimensions=["tenant"])
        self.people = Table("lake.a.people", key=["id"], write=Merge(version="v"))
        self.shop.sql("raw", reads={}, writes=self.raw, query="select 1")
        self.shop.sql(
            "facts", reads={"raw": self.raw, "people": self.people.latest()}, writes=self.facts, query="select 2"
        )
        self.shop.sql("people", reads={"raw": self.raw}, writes=self.people, query="select 3")

    def scope(self, day: int, count: int = 1, **dimensions: str) -> Scope:
        start = ONE + timedelta(days=day - 1)
        return Scope.of(Window(start, start + timedelta(days=count)), dimensions)

    def attempt(self, step: str, scope: Scope) -> tuple[str, int]:
        run = self.ledger.start_run("shop", scope)
        target = self.shop.steps[step].writes.scope(scope)
        return run, self.ledger.start_attempt(run, step, self.shop.steps[step].writes.name, 1, target, code="c")

    def publish(self, step: str, *scopes: Scope, digest: str = "1-a-b-c", code: str = "", inputs=(), rows: int = 1):
        declared = self.shop.steps[step]
        table = declared.writes
        run, row = self.attempt(step, scopes[0])
        claim = self.ledger.claim(table.name, [table.scope(scope) for scope in scopes], ttl=TTL, run=run)
        outputs = [
            Output(
                table.name,
                table.scope(scope),
                rows,
                digest,
                "f",
                "1",
                "shop",
                step,
                code or fingerprint(declared),
                tuple(inputs(scope) if callable(inputs) else inputs),
            )
            for scope in scopes
        ]
        self.ledger.record(claim, row, outputs, status="published")
        self.ledger.finish_run(run, "done")
        return run

    def reads(self, days: int | Iterable[int], text: str = "digest:1-a-b-c") -> list[InputRecord]:
        days = [days] if isinstance(days, int) else days
        starts = [(ONE + timedelta(days=day - 1)).isoformat() for day in days]
        return [
            InputRecord("raw", "lake.a.raw", "window", "1", dict.fromkeys(starts, text)),
            InputRecord("people", "lake.a.people", "latest", "9", {}),
        ]

    def states(self, step: str, **bounds) -> dict[str, str]:
        found = {each.step: each for each in status(self.ledger, self.shop, **bounds)}
        return {partition.name: partition.state for partition in found[step].partitions}

    def reasons(self, step: str, name: str) -> list[str]:
        found = {each.step: each for each in status(self.ledger, self.shop)}
        (partition,) = [partition for partition in found[step].partitions if partition.name == name]
        return [reason.text for reason in partition.reasons]


@pytest.fixture
def story(tmp_path):
    return Story(f"sqlite:///{tmp_path}/ledger.db")


def test_what_ran_is_done_and_gaps_are_missing(story):
    story.publish("raw", story.scope(1))
    story.publish("raw", story.scope(3))
    assert story.states("raw") == {"2026-04-01": "done", "2026-04-02": "missing", "2026-04-03": "done"}
    assert story.states("facts") == dict.fromkeys(["2026-04-01", "2026-04-02", "2026-04-03"], "missing")
    assert story.states("people") == {"whole table": "missing"}


def test_a_changed_input_makes_stale_and_is_named(story):
    story.publish("raw", story.scope(1))
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    assert story.states("facts") == {"2026-04-01": "done"}
    story.publish("raw", story.scope(1), digest="2-b-b-c")
    assert story.states("facts") == {"2026-04-01": "stale"}
    assert story.reasons("facts", "2026-04-01") == ["lake.a.raw 2026-04-01 changed"]


def test_an_upstream_rerun_that_changed_nothing_makes_nothing_stale(story):
    story.publish("raw", story.scope(1))
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    story.publish("raw", story.scope(1))
    assert story.states("facts") == {"2026-04-01": "done"}


def test_files_that_twice_did_not_write_are_not_compared_but_late_arrivals_are(story):
    story.publish("raw", story.scope(1))
    story.publish("facts", story.scope(1), inputs=story.reads(1, "files:abc"))
    assert story.states("facts") == {"2026-04-01": "done"}
    story.publish("facts", story.scope(1), inputs=story.reads(1, "files:"))
    assert story.reasons("facts", "2026-04-01") == ["lake.a.raw 2026-04-01 changed"]


def test_empty_is_empty_whatever_the_schema(story):
    story.publish("raw", story.scope(1), digest="0-0-0-aa", rows=0)
    story.publish("facts", story.scope(1), inputs=story.reads(1, "digest:0-0-0-bb"))
    assert story.states("facts") == {"2026-04-01": "done"}


def test_changed_code_is_a_reason_of_its_own(story):
    story.publish("raw", story.scope(1), code="old")
    assert story.states("raw") == {"2026-04-01": "stale"}
    assert story.reasons("raw", "2026-04-01") == ["the code changed"]


def test_latest_reads_are_not_tracked(story):
    story.publish("raw", story.scope(1))
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    story.publish("people", story.scope(1), inputs=story.reads(1)[:1])
    story.publish("people", story.scope(1), digest="3-a-a-a", inputs=story.reads(1)[:1])
    assert story.states("facts") == {"2026-04-01": "done"}
    assert story.states("people") == {"whole table": "done"}
    story.publish("raw", story.scope(1), digest="2-b-b-c")
    assert story.states("people") == {"whole table": "stale"}


def test_failed_running_lost_and_interrupted(story):
    story.publish("raw", *[story.scope(day) for day in range(1, 6)])
    for day, end in ((1, "failed"), (2, "interrupted")):
        _, row = story.attempt("raw", story.scope(day))
        story.ledger.finish_attempt(row, end, error="boom: three\nmore")
    _, row = story.attempt("raw", story.scope(3))
    assert story.states("raw")["2026-04-03"] == "running"
    assert story.states("raw")["2026-04-01"] == "failed"
    assert story.reasons("raw", "2026-04-01") == ["boom: three"]
    assert story.reasons("raw", "2026-04-02") == ["interrupted"]


def test_a_wide_failure_is_seen_in_each_partition_until_it_is_repaired(story):
    _, row = story.attempt("raw", story.scope(1, 3))
    story.ledger.finish_attempt(row, "failed", error="boom")
    story.publish("raw", story.scope(2))
    assert story.states("raw") == {"2026-04-01": "failed", "2026-04-02": "done", "2026-04-03": "failed"}


def test_tenants_have_lines_of_their_own(story):
    story.publish("facts", story.scope(1, tenant="acme"))
    story.publish("facts", story.scope(2, tenant="bolt"))
    assert story.states("facts") == {
        "2026-04-01 tenant=acme": "done",
        "2026-04-02 tenant=acme": "missing",
        "2026-04-01 tenant=bolt": "missing",
        "2026-04-02 tenant=bolt": "done",
    }
    story.publish("facts", story.scope(2))
    assert story.states("facts")["2026-04-02 tenant=acme"] == "done"
    assert story.states("facts")["2026-04-02"] == "done"


def test_a_range_is_looked_at_and_nothing_else(story):
    story.publish("raw", story.scope(1))
    found = story.states("raw", start=ONE, end=ONE + timedelta(days=3))
    assert found == {"2026-04-01": "done", "2026-04-02": "missing", "2026-04-03": "missing"}
    assert story.states("raw", start=ONE + timedelta(days=1), end=ONE + timedelta(days=2)) == {"2026-04-02": "missing"}
    assert story.states("raw", start=ONE + timedelta(days=1)) == {}


def test_files_changed_by_hand_are_found_with_live(story):
    story.publish("raw", story.scope(1), story.scope(2))

    def files(target):
        return {scope: "f" if scope == story.scope(1) else "other" for scope in target.partitions}

    (raw, *_) = status(story.ledger, story.shop, live=files)
    assert [partition.state for partition in raw.partitions] == ["done", "stale"]
    assert "somebody else wrote to it" in raw.partitions[1].reasons[0].text


def test_a_ledger_that_does_not_exist_yet(story):
    assert [len(step.partitions) for step in status(None, story.shop)] == [0, 1, 0]
    text = list(lines(story.shop, status(None, story.shop)))
    assert text[0] == "shop: 1 missing"
    assert "    nothing has run yet" in text


def test_neighbours_in_one_state_share_a_line(story):
    story.publish("raw", *[story.scope(day) for day in range(1, 25)])
    story.publish("raw", story.scope(26))
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    story.publish("facts", story.scope(2), inputs=story.reads(2))
    story.publish("facts", story.scope(3), inputs=story.reads(3))
    story.publish("raw", *[story.scope(day) for day in (2, 3)], digest="2-b-b-c")
    assert list(lines(story.shop, status(story.ledger, story.shop))) == [
        "shop: 26 done, 2 stale, 25 missing",
        "  raw → lake.a.raw",
        "    2026-04-01 … 2026-04-24 (24)  done",
        "    2026-04-25  missing",
        "    2026-04-26  done",
        "  people → lake.a.people",
        "    whole table  missing",
        "  facts → lake.a.facts",
        "    2026-04-01  done",
        "    2026-04-02 … 2026-04-03 (2)  stale: lake.a.raw changed",
        "    2026-04-04 … 2026-04-26 (23)  missing",
    ]


def test_ten_thousand_partitions_are_all_counted(story):
    scopes = [story.scope(day) for day in range(-9_998, 2)]
    story.publish("raw", *scopes)
    story.publish("facts", *scopes, inputs=lambda scope: story.reads([(scope.window.start - ONE).days + 1]))
    raw, _, facts = status(story.ledger, story.shop)
    assert raw.counts == facts.counts == {"done": 10_000}


def test_the_command_prints_what_the_engine_found(project):
    from twice import config as configuration
    from twice.loading import find_pipeline

    ledger = open_ledger(f"sqlite:///{project.ledger}")
    shop = find_pipeline(configuration.load(), "shop")
    day = Scope.of(Window(ONE, ONE + timedelta(days=1)))
    run = ledger.start_run("shop", day)
    row = ledger.start_attempt(run, "orders", "lake.raw.orders", 1, day, code="c")
    claim = ledger.claim("lake.raw.orders", [day], ttl=TTL, run=run)
    code = fingerprint(shop.steps["orders"])
    output = Output("lake.raw.orders", day, 4, "4-a-b-c", "f", "1", "shop", "orders", code, ())
    ledger.record(claim, row, [output], status="published")
    ledger.finish_run(run, "done")

    said = project.call("status")
    assert said.code == 0
    assert said.out.splitlines()[:3] == [
        "shop: 1 done, 2 missing",
        "  orders → lake.raw.orders",
        "    2026-04-01  done",
    ]
    document = project.call("status", "shop", "--json").json
    assert document["pipeline"] == "shop"
    assert document["steps"][0]["partitions"] == [
        {
            "partition": "2026-04-01",
            "scope": day.to_json(),
            "state": "done",
            "reasons": [],
            "rows": 4,
            "run": run,
        }
    ]
    assert [
        step["partitions"] for step in project.call("status", "--stale", "--json").json["pipelines"][0]["steps"]
    ] == [[]] * 3
    assert project.call("status", "shop", "--stale").out == "shop: nothing to show\n"
    project.code((project.folder / f"{project.module}.py").read_text().replace('"id": 1', '"id": 2'), "changed")
    project.toml(pipelines="")
    (project.folder / "twice.toml").write_text('[pipelines]\nshop = "changed:shop"\n')
    said = project.call("status", "--stale")
    assert said.out == "shop: 1 stale\n  orders → lake.raw.orders\n    2026-04-01  stale: the code changed\n"
