"""`twice backfill` without Spark: what is refused before anything starts, and what is steered through the ledger."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from unittest.mock import ANY

import pytest

from twice.backfills.request import Request
from twice.cli.watching import Watch
from twice.ledger import NewChunk, Owner, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

RANGE = ("--from", "2026-01-01", "--to", "2026-02-01")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shop",), "which range? Give --from and --to"),
        (("shop", "--from", "2026-01-01"), "which range? Give --from and --to"),
        (("shop", "--from", "2026-01-01", "--to", "2026-01-01"), "is empty"),
        (("shop", "--from", "2026-02-01", "--to", "2026-01-01"), "ends before it begins"),
        (("shop", "--from", "2026-01-01T12:00", "--to", "2026-02-01"), "is not the start of a day"),
        (("shop", *RANGE, "--parallel", "0"), "--parallel must be 1 or more"),
        (("shop", *RANGE, "--chunk", "0"), "--chunk '0': write auto"),
        (("shop", *RANGE, "--chunk", "many"), "--chunk 'many': write auto"),
        (("shop", *RANGE, "--pool", "slow"), "there is no pool 'slow'; there are: none"),
        (("shop", *RANGE, "--step", "nothing"), "has no step 'nothing'"),
        (("shop", *RANGE, "--downstream"), "give --step too"),
        (("shop", *RANGE, "--set", "tenant"), "must look like name=value"),
        (("shop", *RANGE, "--set", "shop=x"), "has no dimension 'shop'"),
        (("shop", *RANGE, "--tag", "backfill=x"), "is reserved for the backfill's id"),
        (("nothing", *RANGE), "no pipeline 'nothing'"),
        (("swap", "zzz"), "no backfill begins with 'zzz'"),
        (("resume", "zzz"), "no backfill begins with 'zzz'"),
        (("show", "zzz"), "no backfill begins with 'zzz'"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(project, arguments, words):
    answer = project.call("backfill", *arguments)
    assert words in answer.err
    assert answer.code == (3 if "no ledger" in words else 2)
    assert not project.ledger.exists()


def test_only_known_words_are_taken(project):
    assert project.call("backfill", "shop", *RANGE, "--only", "fresh").code == 2
    assert project.call("backfill", "shop", *RANGE, "--shadow", "--only", "failed").code == 2


def test_pools_are_read_from_the_configuration(project):
    project.toml("[pools.slow]\nweight = 2\nmin_share = 1")
    assert "there are: slow" in project.call("backfill", "shop", *RANGE, "--pool", "fast").err
    for wrong in ("weight = 0", "weight = 'x'", "size = 2"):
        project.toml(f"[pools.slow]\n{wrong}")
        answer = project.call("backfill", "list")
        assert (answer.code, "[pools.slow]" in answer.err) == (2, True)


def test_a_pipeline_that_is_named_like_a_command_stays_reachable(project):
    project.toml(pipelines=f'list = "{project.module}:shop"')
    assert "no backfills yet" in project.call("backfill", "list").out
    assert "which range?" in project.call("backfill", "start", "list").err


@pytest.fixture
def begun(project):
    """A backfill that a process elsewhere works on: two of four chunks done, one with a refused day."""
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    first = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def scope(number: int, days: int) -> Scope:
        start = first + timedelta(days=number)
        return Scope(Window(start, start + timedelta(days=days)))

    far = Owner("elsewhere", 7)
    backfill = ledger.backfills.start(
        "shop", scope(0, 8), ["lake.core.facts"], request={}, code={}, parallel=2, ttl=timedelta(hours=1), owner=far
    )
    note = {"step": "build", "table": "lake.core.facts", "why": "separable: declared", "to_come": {"later": 8}}
    ledger.backfills.chunks.lay_out(backfill, 1, "build", [NewChunk(scope(2 * n, 2), 2) for n in range(4)], note)
    for refused in ({}, {"2026-01-04": "row count at least 1"}):
        ledger.backfills.chunks.finish(
            ledger.backfills.chunks.take(backfill, owner=far), "done", rows=5, refused=refused
        )
    return backfill


def test_a_backfill_is_listed_and_shown_from_anywhere(project, begun):
    listed = project.call("backfill", "list")
    assert begun in listed.out
    assert "3 of 16, 1 failed" in listed.out  # as planned, with the step whose turn has not come
    found = project.call("backfill", "list", "--json").json[0]
    assert (found["id"], found["partitions"]) == (begun, 16)
    shown = project.call("backfill", "show", begun[:9]).out
    assert "build → lake.core.facts: 3 of 8 partitions, 10 rows" in shown
    assert "separable: declared" in shown
    assert "later: 0 of 8 partitions, not started yet" in shown
    assert "worker    elsewhere (pid 7)" in shown
    assert "refused: build 2026-01-04: row count at least 1" in shown
    document = project.call("backfill", "show", begun, "--json").json
    assert [chunk["state"] for chunk in document["chunks"]] == ["done", "done", "waiting", "waiting"]


def test_a_backfill_is_steered_from_anywhere(project, begun):
    assert "is paused" in project.call("backfill", "pause", begun).out
    assert project.call("backfill", "show", begun, "--json").json["status"] == "paused"
    # The process elsewhere goes on; this one has nothing to do
    assert "continues on elsewhere (pid 7)" in project.call("backfill", "resume", begun).out
    assert project.call("backfill", "set", begun, "--parallel", "5", "--json").json["parallel"] == 5
    assert "--parallel must be 1 or more" in project.call("backfill", "set", begun, "--parallel", "0").err
    assert "is cancelled" in project.call("backfill", "cancel", begun).out
    # What has ended is not steered any more
    for command in (("pause",), ("cancel",), ("resume",), ("set", "--parallel", "2")):
        answer = project.call("backfill", command[0], begun, *command[1:])
        assert (answer.code, "cancelled" in answer.err) == (2, True), command
    watched = project.call("backfill", "watch", begun)
    assert watched.out == f"backfill {begun} cancelled: 3 of 16 partitions, 1 failed\n"
    told = project.call("backfill", "watch", begun, "--json").json
    assert (told["status"], told["progress"]["done"], told["progress"]["total"]) == ("cancelled", 3, 16)


@pytest.mark.parametrize("options", [("--restart",), ("--new-code",), ("--restart", "--join")])
def test_others_at_work_are_not_restarted_under_their_hands(project, begun, options):
    project.call("backfill", "pause", begun)
    answer = project.call("backfill", "resume", begun, *options)
    assert answer.code == 2
    assert f"{options[0]} cannot be used while other processes work on backfill" in answer.err
    assert f"{begun}: elsewhere (pid 7)" in answer.err
    shown = project.call("backfill", "show", begun, "--json").json
    assert (shown["status"], len(shown["chunks"])) == ("paused", 4)


def test_an_unknown_id_is_a_wrong_word_also_once_there_is_a_ledger(project, begun):
    for command in (("show",), ("watch",), ("pause",), ("resume",), ("cancel",), ("set", "--parallel", "2")):
        answer = project.call("backfill", command[0], "zzz", *command[1:])
        assert (answer.code, "no backfill begins with 'zzz'" in answer.err) == (2, True), command


def test_whoever_watches_sees_what_is_taken_what_ends_and_what_is_to_come(project, begun):
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    watch = Watch(ledger, begun)
    far = Owner("elsewhere", 7)

    def look():
        info = ledger.backfills.get(begun)
        progress = watch.read(info)
        return progress, [(note.kind, note.step) for note in watch.changes(info, progress)]

    # A step whose turn has not come counts as it was planned
    assert look() == (ANY, [("tick", "")])
    chunk = ledger.backfills.chunks.take(begun, owner=far)
    progress, changes = look()
    assert (progress.done, progress.running, progress.failed, progress.total) == (3, 2, 1, 16)
    assert changes == [("chunk started", "build"), ("tick", "")]
    assert "3 of 16 partitions, 2 running, 1 failed" in progress.text
    ledger.backfills.chunks.finish(chunk, "done", rows=5)
    assert look()[1] == [("done", "build"), ("tick", "")]


def test_on_a_terminal_a_watch_draws_a_bar(project, begun, monkeypatch):
    monkeypatch.setattr("twice.cli.watching.is_terminal", lambda: True)
    open_ledger(f"sqlite:///{project.ledger}").backfills.cancel(begun)
    shown = project.call("backfill", "watch", begun).out
    assert shown.endswith(f"backfill {begun} cancelled: 3 of 16 partitions, 1 failed\n")


def changed(project, *, workers: bool) -> str:
    """Begin a backfill whose code is another now; its process is gone, or still at work."""
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    window = Window(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 9, tzinfo=timezone.utc))
    request = Request("shop", window, steps=("build",)).to_json()
    far = Owner("elsewhere", 7)
    how = {"request": request, "code": {"build": "v0"}, "parallel": 2, "ttl": timedelta(hours=1), "owner": far}
    backfill = ledger.backfills.start("shop", Scope(window), ["lake.core.facts"], **how)
    if not workers:
        ledger.backfills.leave(backfill, interrupted=True, owner=far)
    return backfill


def test_resume_with_other_code_names_both_ways_where_nobody_can_be_asked(project):
    backfill = changed(project, workers=False)
    answer = project.call("backfill", "resume", backfill)
    assert answer.code == 2
    assert f"the code of build changed since backfill {backfill} began" in answer.err
    assert f"twice backfill resume {backfill} --new-code" in answer.err
    assert f"twice backfill resume {backfill} --restart" in answer.err
    assert project.call("backfill", "show", backfill, "--json").json["status"] == "interrupted"


@pytest.mark.parametrize("word", ["new-code", "restart"])
def test_on_a_terminal_resume_with_other_code_asks(project, monkeypatch, word):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    backfill = changed(project, workers=True)
    monkeypatch.setattr("sys.stdin", Terminal(f"perhaps\n{word}\n"))
    answer = project.call("backfill", "resume", backfill, "--join")
    # It asks until one of the two is said, and does that: not under the hands of others
    assert "Build what is left with the new code, or restart? (new-code, restart)" in answer.err
    assert "'perhaps' is not one of" in answer.err
    assert f"--{word} cannot be used while other processes work on backfill" in answer.err
    assert answer.code == 2


def test_a_second_backfill_of_the_same_range_is_told_who_holds_it(project, begun):
    answer = project.call("backfill", "shop", "--from", "2026-01-08", "--to", "2026-02-01", "--step", "build")
    assert answer.code == 4
    assert f"overlaps with backfill {begun}" in answer.err
    assert f"twice backfill watch {begun}" in answer.err


def test_a_shadow_that_was_killed_before_it_began_is_resumed_or_cancelled(project):
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    first = datetime(2026, 1, 1, tzinfo=timezone.utc)
    week = Scope(Window(first, first + timedelta(days=7)))
    found = ledger.backfills.start(
        "shop", week, ["lake.core.facts@x"], request={"shadow": True}, code={}, parallel=1, ttl=timedelta(0)
    )
    for command in ("diff", "swap", "drop"):
        answer = project.call("backfill", command, found)
        assert (answer.code, "has not begun" in answer.err, f"resume {found}" in answer.err) == (2, True, True)


def test_what_a_shadow_is_not_ready_for_is_refused_before_spark_starts(project, begun):
    for command in ("diff", "swap", "drop"):
        assert "has no shadow: it works on the tables themselves" in project.call("backfill", command, begun).err
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    ledger.backfills.shadows.begin(begun, {"lake.core.facts": "lake.core.facts@x"})
    swap = project.call("backfill", "swap", begun)
    assert (swap.code, "is not finished: it is running" in swap.err) == (2, True)
    drop = project.call("backfill", "drop", begun)
    assert (drop.code, "is at work on elsewhere (pid 7)" in drop.err) == (2, True)
    shown = project.call("backfill", "show", begun).out
    assert "shadow    building" in shown
    assert "lake.core.facts: as before; new rows in lake.core.facts@x" in shown
    assert "running, shadow building" in project.call("backfill", "list").out

    ledger.backfills.shadows.begin_swap(begun, ttl=timedelta(minutes=1))
    ledger.backfills.shadows.table_swapped(begun, "lake.core.facts", "7")
    ledger.backfills.shadows.end(begun)

    assert "shows the new rows" in project.call("backfill", "show", begun).out
    assert "is swapped: nothing to compare" in project.call("backfill", "diff", begun).err
    assert "is already swapped" in project.call("backfill", "swap", begun).err
