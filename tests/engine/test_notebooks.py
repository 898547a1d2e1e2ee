"""Results in a notebook: one short line, and a small table in which everything is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from twice import (
    BackfillResult,
    Day,
    PartitionStatus,
    PipelineStatus,
    RunResult,
    Scope,
    Status,
    StepFailed,
    StepResult,
    StepStatus,
    StreamResult,
    UndoResult,
)
from twice.backfills.summary import Failure
from twice.engine.status import Reason
from twice.ledger import Tally
from twice.model.grains import zone_of

SCOPE = "2026-04-25/2026-04-26"
EVIL = "<script>alert('&')</script>"


def day(text, state, *reasons):
    scope = Scope(Day.unit(text, zone_of("UTC")))
    return PartitionStatus(text, scope, state, tuple(Reason("data", "raw", reason) for reason in reasons))


STEPS = (
    StepStatus(
        "facts", "lake.core.facts", (day("2026-04-25", "done"), day("2026-04-26", "stale", "lake.raw.orders changed"))
    ),
    StepStatus("sums", "lake.mart.sums", (day("2026-04-25", "missing"),)),
)


def step(name, status="published", rows=5):
    return StepResult(name, f"lake.core.{name}", SCOPE, status, rows, attempts=2, seconds=1.26)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            RunResult("06k", "shop", SCOPE, "done", [step("facts"), step("sums", "unchanged", 1)]),
            f"RunResult(06k, shop {SCOPE}: done; facts published (5 rows), sums unchanged (1 row))",
        ),
        (
            RunResult("06k", "shop", SCOPE, "done", [step("a", "fresh"), *map(step, "bcde")]),
            f"RunResult(06k, shop {SCOPE}: done; 5 steps: 1 fresh, 4 published)",
        ),
        (RunResult("06k", "shop", SCOPE), f"RunResult(06k, shop {SCOPE}: running)"),
        (step("facts", rows=1200), f"StepResult(facts {SCOPE}: published, 1,200 rows)"),
        (
            BackfillResult("shop", "done", "06k", (Tally("facts", done=3, rows=9), Tally("sums", done=1))),
            "BackfillResult(06k, shop: done; 4 partitions, 9 rows)",
        ),
        (
            BackfillResult("shop", "partly", "06k", (Tally("facts", done=1, rows=1),), (Failure("facts", "d", "x"),)),
            "BackfillResult(06k, shop: partly; 1 partition, 1 row, 1 not built)",
        ),
        (BackfillResult("shop", "nothing to do"), "BackfillResult(shop: nothing to do)"),
        (Status((PipelineStatus("shop", STEPS),)), "Status(shop: 1 done, 1 stale, 1 missing)"),
        (Status((PipelineStatus("a", ()), PipelineStatus("b", ()))), "Status(a, b: no partitions)"),
        (PipelineStatus("shop", STEPS), "PipelineStatus(shop: 1 done, 1 stale, 1 missing)"),
        (STEPS[0], "StepStatus(facts: 1 done, 1 stale)"),
        (
            UndoResult("facts", "lake.core.facts", SCOPE, "7", "restored", 3),
            f"UndoResult(lake.core.facts, {SCOPE}: restored to version 7 (3 rows))",
        ),
        (
            StreamResult("06k", "clicks", "lake.raw.clicks", batches=2, rows_out=7),
            "StreamResult(06k, clicks: stopped; 2 batches, 7 rows)",
        ),
    ],
)
def test_a_result_is_shown_in_one_line(result, line):
    assert repr(result) == line


def read(result):
    """Read a result's HTML: its title, the cells of its table, its notes."""
    found = ET.fromstring(result._repr_html_())  # noqa: S314 - what is read was written here
    cells = [[cell.text or "" for cell in row] for row in found.iter("tr")]
    return found.findtext("p"), cells, [note.text for note in found.iter("pre")]


def test_a_run_is_a_table_of_its_steps():
    effect = SimpleNamespace(effect="mail", scope=SCOPE, states={"confirmed": 1}, text="1 confirmed", errors=())
    result = RunResult("06k", "shop", SCOPE, "done", [step("facts", rows=1200)], [effect])
    assert read(result) == (
        f"Run 06k of shop, {SCOPE}: done",
        [
            ["step", "table", "result", "rows", "attempts", "seconds"],
            ["facts", "lake.core.facts", "published", "1,200", "2", "1.3"],
        ],
        [f"effect mail {SCOPE}: 1 confirmed"],
    )


def test_a_backfill_is_a_table_of_its_steps_and_what_was_not_made():
    tallies = (Tally("facts", done=3, failed=1, rows=9), Tally("sums", blocked=1))
    result = BackfillResult("shop", "partly", "06k", tallies, (Failure("facts", "2026-04-26", "a bad day"),))
    assert read(result) == (
        "Backfill 06k of shop: partly",
        [["step", "done", "failed", "blocked", "rows"], ["facts", "3", "1", "0", "9"], ["sums", "0", "0", "1", "0"]],
        ["facts 2026-04-26: a bad day"],
    )
    assert read(BackfillResult("shop", "nothing to do"))[0] == "shop: nothing to do"


def test_a_status_is_a_table_of_counts_and_names_what_is_not_done_and_why():
    title, cells, notes = read(Status((PipelineStatus("shop", STEPS),)))
    assert title == "1 done, 1 stale, 1 missing"
    assert cells == [
        ["pipeline", "step", "table", "done", "stale", "missing"],
        ["shop", "facts", "lake.core.facts", "1", "1", "0"],
        ["shop", "sums", "lake.mart.sums", "0", "0", "1"],
    ]
    assert notes == ["facts 2026-04-26: stale: lake.raw.orders changed", "sums 2026-04-25: missing"]
    assert read(PipelineStatus("shop", STEPS))[1] == cells


def test_a_long_status_stays_small():
    many = tuple(day("2026-04-25", "missing") for _ in range(10_000))
    html = Status((PipelineStatus("shop", (StepStatus("facts", "lake.core.facts", many),)),))._repr_html_()
    assert "… and 9,990 more" in html
    assert len(html) < 2_000


@pytest.mark.parametrize(
    "result",
    [
        RunResult(EVIL, EVIL, EVIL, EVIL, [step(EVIL, EVIL)], error=StepFailed(EVIL)),
        BackfillResult(EVIL, EVIL, EVIL, (Tally(EVIL),), (Failure(EVIL, EVIL, EVIL),)),
        Status((PipelineStatus(EVIL, (StepStatus(EVIL, EVIL, (day("2026-04-25", "stale", EVIL),)),)),)),
    ],
)
def test_everything_in_a_table_is_escaped(result):
    html = result._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;") >= 4


def test_a_table_hides_passwords():
    error = StepFailed("cannot reach postgresql://ana:s3cret@db/shop")
    assert "s3cret" not in RunResult("06k", "shop", SCOPE, "failed", error=error)._repr_html_()
