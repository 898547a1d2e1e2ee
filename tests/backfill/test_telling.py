"""What a backfill tells: lines, JSON objects, a live view, its plan and its end."""

from __future__ import annotations

import json
import time

from rich.console import Console

from tests.backfill.test_planning import Plans
from twice.backfills.events import BackfillEvent, Meter, Progress
from twice.backfills.summary import BackfillResult, Failure
from twice.cli.backfill import report_end
from twice.cli.plans import lines
from twice.cli.settings import Settings
from twice.cli.working import Board, line, reporting
from twice.ledger import Tally

FAR = Progress(done=30, running=15, failed=1, total=180, seconds=60.0, rate=0.5, left=298.0)
DONE = BackfillEvent(
    "done", "06ksm4", "facts", "2026-01-01 … 2026-01-15 (15)", "published", FAR, {"rows": 7, "seconds": 3.21}
)


def test_a_line_says_what_happened_and_how_far_it_is():
    assert line(DONE) == (
        "06ksm4  facts  2026-01-01 … 2026-01-15 (15)  done  7 rows  3.2 s  published  "
        "[30 of 180 partitions, 15 running, 1 failed, 30 per minute, 5 min left]"
    )


def test_without_a_terminal_changes_are_lines_and_details_are_left_out(capsys):
    for settings, expected in ((Settings(), 1), (Settings(verbosity=1), 2), (Settings(verbosity=-1), 0)):
        with reporting(settings) as report:
            report(BackfillEvent("tick", "06ksm4", progress=FAR))
            report(DONE)
        assert len(capsys.readouterr().err.splitlines()) == expected


def test_as_json_every_change_is_one_object(capsys):
    for settings, as_json in ((Settings(log_format="json"), False), (Settings(), True)):
        with reporting(settings, as_json=as_json) as report:
            report(BackfillEvent("tick", "06ksm4", progress=FAR))
            report(DONE)
        said = capsys.readouterr()
        (found,) = (json.loads(text) for text in said.err.splitlines())
        assert (found["backfill"], found["state"], found["step"]) == ("06ksm4", "done", "facts")
        assert (found["progress"]["done"], found["data"]["rows"]) == (30, 7)
        assert said.out == ""
    with reporting(Settings(verbosity=-1), as_json=True) as report:
        report(DONE)
    assert capsys.readouterr().err == ""


def test_as_json_the_summary_is_the_last_line(capsys):
    report_end(Settings(), BackfillResult("shop", "done", "06ksm4", (Tally("facts", done=9, rows=90),)), as_json=True)
    (found,) = capsys.readouterr().out.splitlines()
    assert (json.loads(found)["status"], json.loads(found)["steps"][0]["done"]) == ("done", 9)


def test_the_live_view_shows_a_bar_and_what_is_at_work():
    board = Board()
    board.listen(BackfillEvent("chunk started", "06ksm4", "facts", "2026-01-16", progress=FAR))
    board.listen(BackfillEvent("chunk started", "06ksm4", "facts", DONE.span, progress=FAR))
    board.listen(DONE)
    console = Console(width=200, record=True, file=None)
    with console.capture() as said:
        console.print(board.draw())
    shown = said.get()
    assert "backfill 06ksm4" in shown
    assert "30 of 180 partitions" in shown
    assert "  facts 2026-01-16\n" in shown.replace(" " * 20, "").replace(" \n", "\n")
    assert "published" in shown


def test_the_meter_counts_steps_whose_turn_has_not_come_as_planned():
    meter = Meter({"facts": 10, "sums": 10})
    meter.read([Tally("facts", waiting=10)])
    time.sleep(0.05)
    found = meter.read([Tally("facts", done=5, failed=1, waiting=4)])
    assert (found.done, found.failed, found.total) == (5, 1, 20)
    assert found.rate > 0
    assert found.left > 0
    # A step that turned out to have less to do counts as it is
    assert meter.read([Tally("facts", done=10), Tally("sums", done=3)]).total == 13
    # And one that turned out to have nothing to do is no longer waited for
    meter.expect({"sums": 0})
    assert meter.read([Tally("facts", done=10)]).total == 10


def test_the_plan_is_told_step_by_step_with_its_reasons(tmp_path):
    plans = Plans(tmp_path)
    plans.made("land", 1, 4)
    shown = "\n".join(lines(plans.plan()))
    assert "shop: 27 partitions in 10 chunks, 2 at once, oldest first" in shown
    assert "land → lake.s.raw: 3 done, 7 missing" in shown
    assert "3 landed partitions are reused; --refetch fetches them again" in shown
    assert "separable: declared" in shown
    assert "overwrite the scope 2026-01-01/2026-01-11 of lake.s.facts (10 partitions)" in shown
    for step in ("land", "facts", "sums"):
        plans.made(step, 1, 11)
    assert "nothing to do, every partition of the range is up to date" in "\n".join(lines(plans.plan()))


def test_the_summary_ends_with_the_command_that_goes_on():
    summary = BackfillResult(
        "shop",
        "partly",
        "06ksm4",
        (Tally("facts", done=9, failed=1, rows=90), Tally("sums", done=9, blocked=1, rows=9)),
        (Failure("facts", "2026-01-06", "rotten"), Failure("sums", "2026-01-06", "no input", blocked=True)),
        "twice backfill start shop --from 2026-01-06 --to 2026-01-07",
    )
    assert list(summary.lines) == [
        "backfill 06ksm4 of shop: finished in part: 18 partitions, 99 rows",
        "  facts: 9 of 10 partitions, 1 failed, 90 rows",
        "  sums: 9 of 10 partitions, 1 blocked, 9 rows",
        "  failed: facts 2026-01-06: rotten",
        "  not built: sums 2026-01-06: no input",
        "  next: twice backfill start shop --from 2026-01-06 --to 2026-01-07",
    ]
    assert summary.exit_code == summary.to_json()["exit_code"] == 3
