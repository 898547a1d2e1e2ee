"""Status from the ledger alone: states, reasons in words, ranges, and many partitions."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

from tests.cli.story import ONE
from tests.support.history import TTL
from twice import Day, Overwrite, Table
from twice.cli.status import lines
from twice.engine.attempt.fingerprint import fingerprint, parts
from twice.engine.status import PartitionStatus, PipelineStatus, Reason, StepStatus, collect, status
from twice.ledger import InputRecord, Output, Owner, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window


def test_a_ledger_that_cannot_exist_is_an_error_and_not_an_empty_status(project):
    (project.folder / "state").touch()
    project.toml('[ledger]\nurl = "sqlite:///state/ledger.db"')
    for command in (["status"], ["runs"], ["cost"], ["leases"]):
        said = project.call(*command)
        assert (said.code, said.out) == (3, "")
        assert f"{project.folder}/state is not a directory" in said.err


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


def test_what_changed_in_the_code_is_named_if_somebody_kept_it(story):
    code, now = fingerprint(story.pipeline.steps["raw"]), parts(story.pipeline.steps["raw"])
    story.ledger.codes.keep("older", now | {"sql": "other", "shop.rates:0": "gone"})
    story.publish("raw", story.scope(1), code="older")
    story.publish("raw", story.scope(2), code=code)
    story.publish("raw", story.scope(3), code="oldest")
    assert story.reasons("raw", "2026-04-01") == ["the code changed: its query, function shop.rates"]
    assert story.reasons("raw", "2026-04-02") == []
    assert story.reasons("raw", "2026-04-03") == ["the code changed"]


def test_data_and_code_are_told_apart(story):
    story.publish("raw", story.scope(1), story.scope(2), digest="2-b-b-c")
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    story.publish("facts", story.scope(2), inputs=story.reads(2), code="old")
    story.publish("facts", story.scope(3), code="old")
    found = {each.step: each for each in status(story.ledger, story.pipeline)}
    assert found["facts"].stale == {"data": 2, "code": 2}
    assert found["raw"].stale == {}
    assert found["facts"].to_json()["stale"] == {"data": 2, "code": 2}
    kinds = [[reason.kind for reason in partition.reasons] for partition in found["facts"].partitions]
    assert kinds == [["data"], ["data", "code"], ["code"]]
    assert found["facts"].partitions[0].reasons[0].to_json() == {
        "kind": "data",
        "subject": "lake.a.raw",
        "text": "lake.a.raw 2026-04-01 changed",
        "partitions": ["2026-04-01"],
        "rows": 0,
    }


def test_several_partitions_of_an_input_are_told_as_a_span(story):
    story.publish("raw", *[story.scope(day) for day in range(1, 5)])
    story.publish("facts", story.scope(4), inputs=story.reads(range(1, 5)))
    story.publish("raw", story.scope(2), story.scope(4), digest="3-b-b-c", rows=3)
    (reason,) = next(
        p for s in status(story.ledger, story.pipeline) if s.step == "facts" for p in s.partitions[3:]
    ).reasons
    assert reason.text == "lake.a.raw 2026-04-02 … 2026-04-04 (2) changed"
    assert (reason.partitions, reason.rows) == (("2026-04-02", "2026-04-04"), 4)


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
    for day, end in ((1, "failed"), (2, "interrupted"), (6, "interrupted")):
        _, row = story.attempt("raw", story.scope(day))
        story.ledger.attempts.finish(row, end, error="boom: three\nmore")
    _, row = story.attempt("raw", story.scope(3))
    assert story.states("raw")["2026-04-03"] == "running"
    assert story.states("raw")["2026-04-01"] == "failed"
    assert story.reasons("raw", "2026-04-01") == ["boom: three"]
    # What holds a good version still holds it; what holds none was not made
    assert (story.states("raw")["2026-04-02"], story.reasons("raw", "2026-04-02")) == ("done", [])
    assert (story.states("raw")["2026-04-06"], story.reasons("raw", "2026-04-06")) == ("failed", ["interrupted"])


@pytest.mark.parametrize("claims", [True, False])
def test_what_a_dead_process_of_this_machine_left_is_not_running(story, claims):
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    dead = Owner(Owner.here().host, child.pid)
    for day, owner in ((1, dead), (2, Owner("elsewhere", child.pid)), (3, None)):
        scope = story.scope(day)
        run = story.ledger.runs.start("shop", scope, owner=owner)
        row = story.ledger.attempts.start(run, "raw", "lake.a.raw", 1, scope, code="c")
        if claims:
            claim = story.ledger.leases.claim("lake.a.raw", [scope], ttl=TTL, run=run, owner=owner)
            story.ledger.leases.bind(row, claim, base_version=None, inputs=())
    assert story.states("raw") == {"2026-04-01": "failed", "2026-04-02": "running", "2026-04-03": "running"}
    assert story.reasons("raw", "2026-04-01") == ["its process died before it recorded an end"]
    found = {info.owner: info.status for info in story.ledger.runs.list()}
    assert (found[dead], found[Owner("elsewhere", child.pid)], found[Owner.here()]) == ("lost", "running", "running")


def test_a_wide_failure_is_seen_in_each_partition_until_it_is_repaired(story):
    _, row = story.attempt("raw", story.scope(1, 3))
    story.ledger.attempts.finish(row, "failed", error="boom")
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

    (raw, *_) = status(story.ledger, story.pipeline, live=files)
    assert [partition.state for partition in raw.partitions] == ["done", "stale"]
    assert "another writer changed it" in raw.partitions[1].reasons[0].text


def test_what_a_run_for_one_tenant_wrote_is_not_taken_for_a_hand(story):
    story.publish("facts", story.scope(1), story.scope(2))
    story.clock.advance(timedelta(minutes=1))
    run = story.publish("facts", story.scope(1, tenant="acme"))

    def files(target):
        return dict.fromkeys(target.partitions, "f" if target.scope.dimensions else "other")

    (facts,) = (step for step in status(story.ledger, story.pipeline, live=files) if step.step == "facts")
    reasons = {part.name: part.reasons[0].text for part in facts.partitions if part.state == "stale"}
    assert f"run {run} wrote to it for tenant=acme alone" in reasons["2026-04-01"]
    assert "another writer changed it" in reasons["2026-04-02"]


class FakeSources:
    """Sources that hold what a test says, and count how often they are asked."""

    def __init__(self, story, **files: str) -> None:
        self.held = {story.scope(int(day.removeprefix("day"))): text for day, text in files.items()}
        self.asked = 0
        self.now: str | None = "1"

    def files(self, target):
        self.asked += 1
        return {partition: self.held.get(partition, "") for partition in target.partitions}

    def seen(self, table, event, zone):
        self.asked += 1
        return None if self.now is None else f"{self.now} {event}"


@pytest.mark.parametrize(
    ("recorded", "now", "state"),
    [
        ("files:abc", "abc", "done"),
        ("files:abc", "abd", "stale"),
        ("files:abc", "", "stale"),
        ("files:", "", "done"),
        ("files:", "abc", "stale"),
        ("digest:1-a-b-c", "f", "done"),
        ("digest:1-a-b-d", "f", "stale"),
        ("digest:1-a-b-c", "edited by hand", "stale"),
        ("digest:1-a-b-c", "unknown:7", "done"),
        ("digest:0-a-b-c", "", "done"),
    ],
)
def test_sources_are_compared_when_they_are_asked(story, recorded, now, state):
    story.publish("raw", story.scope(1))
    story.publish("facts", story.scope(1), inputs=story.reads(1, recorded))
    sources = FakeSources(story, day1=now)
    found = {each.step: each for each in status(story.ledger, story.pipeline, sources=sources)}
    assert [partition.state for partition in found["facts"].partitions] == [state]
    assert sources.asked == 1


def test_a_source_without_partitions_is_compared_by_what_it_shows_of_the_window(story):
    calls = Table("db.public.calls", event_time="at")
    logs = Table("lake.a.logs", partition=Day("d"), write=Overwrite())
    story.pipeline.sql("logs", reads={"calls": calls}, writes=logs, query="select 4")
    for day in (1, 2, 3):
        seen = f"seen:1 2026-04-0{day}/2026-04-0{day + 1}" if day < 3 else "unknown:x"
        story.publish(
            "logs", story.scope(day), inputs=[InputRecord("calls", calls.name, "window", None, {"window": seen})]
        )
    sources = FakeSources(story)

    def states():
        found = {each.step: each for each in status(story.ledger, story.pipeline, sources=sources)}
        return [partition.state for partition in found["logs"].partitions]

    assert states() == ["done", "done", "done"]
    sources.now = "2"
    assert states() == ["stale", "stale", "done"]
    sources.now = None
    assert states() == ["done", "done", "done"]
    assert story.states("logs") == dict.fromkeys(["2026-04-01", "2026-04-02", "2026-04-03"], "done")


def test_a_ledger_that_does_not_exist_yet(story):
    assert [len(step.partitions) for step in status(None, story.pipeline)] == [0, 1, 0]
    text = list(lines(collect(None, [story.pipeline]).pipelines[0]))
    assert text[0] == "shop: 1 missing"
    assert "    nothing has run yet" in text


def test_neighbours_in_one_state_share_a_line(story):
    story.publish("raw", *[story.scope(day) for day in range(1, 25)])
    story.publish("raw", story.scope(26))
    story.publish("facts", story.scope(1), inputs=story.reads(1))
    story.publish("facts", story.scope(2), inputs=story.reads(2))
    story.publish("facts", story.scope(3), inputs=story.reads(3))
    story.publish("raw", *[story.scope(day) for day in (2, 3)], digest="2-b-b-c")
    assert list(lines(collect(story.ledger, [story.pipeline]).pipelines[0])) == [
        "shop: 26 done, 2 stale, 25 missing",
        "  raw → lake.a.raw",
        "    2026-04-01 … 2026-04-24 (24)  done",
        "    2026-04-25  missing",
        "    2026-04-26  done",
        "  people → lake.a.people",
        "    whole table  missing",
        "  facts → lake.a.facts",
        "    2026-04-01  done",
        "    2026-04-02 … 2026-04-03 (2)  stale: lake.a.raw 2026-04-02 … 2026-04-03 (2) changed",
        "    2026-04-04 … 2026-04-26 (23)  missing",
    ]


def test_open_and_late_are_told(story):
    def late(rows):
        return (Reason.changed("lake.a.raw", ("2026-04-03",), rows, late=True),)

    made = [
        PartitionStatus("2026-04-01", story.scope(1), "done", open=False, ignored=late(2)),
        PartitionStatus("2026-04-02", story.scope(2), "done", open=False, ignored=late(1)),
        PartitionStatus("2026-04-03", story.scope(3), "failed", late(None), open=False),
        PartitionStatus("2026-04-04", story.scope(4), "done", open=True),
        PartitionStatus("2026-04-05", story.scope(5), "stale", (Reason("code", "", "the code changed"),), open=True),
    ]
    told = "lake.a.raw 2026-04-03 changed after the partition was closed"
    assert list(lines(PipelineStatus("shop", (StepStatus("facts", "lake.a.facts", tuple(made)),))))[2:] == [
        "    2026-04-01 … 2026-04-02 (2)  done; late and left out: " + told + " (+3 rows)",
        "    2026-04-03  failed: " + told,
        "    2026-04-04  done, open",
        "    2026-04-05  stale, open: the code changed",
    ]


@pytest.mark.full
def test_ten_thousand_partitions_are_all_counted(story):
    scopes = [story.scope(day) for day in range(-9_998, 2)]
    story.publish("raw", *scopes)
    story.publish("facts", *scopes, inputs=lambda scope: story.reads([(scope.window.start - ONE).days + 1]))
    raw, _, facts = status(story.ledger, story.pipeline)
    assert raw.counts == facts.counts == {"done": 10_000}


def test_the_command_prints_what_the_engine_found(project):
    from twice import config as configuration
    from twice.loading import find_pipeline

    ledger = open_ledger(f"sqlite:///{project.ledger}")
    shop = find_pipeline(configuration.load(), "shop")
    day = Scope.of(Window(ONE, ONE + timedelta(days=1)))
    run = ledger.runs.start("shop", day)
    row = ledger.attempts.start(run, "orders", "lake.raw.orders", 1, day, code="c")
    claim = ledger.leases.claim("lake.raw.orders", [day], ttl=TTL, run=run)
    code = fingerprint(shop.steps["orders"])
    output = Output("lake.raw.orders", day, 4, "4-a-b-c", "f", "1", "shop", "orders", code, ())
    ledger.outputs.record(claim, row, [output], status="published")
    ledger.runs.finish(run, "done")

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
            "open": None,
            "ignored": [],
            "accepted_gates": [],
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
    assert said.out == (
        "shop: 1 stale (1 by code)\n  orders → lake.raw.orders\n    2026-04-01  stale: the code changed\n"
    )


def test_a_gate_that_was_let_through_is_shown_for_the_partition_that_it_let_through(story, project, monkeypatch):
    for day in (1, 2, 3):
        story.publish("raw", story.scope(day))
    known = {"gate": "row count at least 5", "partition": "2026-04-02", "found": "it has 1", "because": "a holiday"}
    run = story.publish("raw", story.scope(2), details={"accepted_gates": [known]})
    found = {each.step: each for each in status(story.ledger, story.pipeline)}["raw"]
    assert [partition.accepted for partition in found.partitions] == [(), (known,), ()]
    assert found.partitions[1].to_json()["accepted_gates"] == [known]
    text = list(lines(PipelineStatus(story.pipeline.name, (found,))))
    assert "    2026-04-02  done; gate accepted: row count at least 5, because a holiday" in text
    assert story.ledger.runs.get(run).to_json()["accepted_gates"] == [known]
    monkeypatch.setattr("twice.cli.settings.Settings.ledger_if_any", lambda _: story.ledger)
    listed = [text for text in project.call("runs").out.splitlines() if "accepted" in text]
    assert [text.split()[0] for text in listed] == [run]
    assert "done, accepted: row count at least 5" in listed[0]
    shown = project.call("show", run).out
    assert "accepted “row count at least 5” of 2026-04-02 (it has 1), because a holiday" in shown
    story.publish("raw", story.scope(2))
    assert status(story.ledger, story.pipeline)[0].partitions[1].accepted == ()
