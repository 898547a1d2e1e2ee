"""`twice run` without Spark: the plan, the command to run next, the hook and what is printed."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from twice import Day
from twice.cli import run as command
from twice.cli.progress import Board, line
from twice.engine.attempt.task import StepResult
from twice.engine.events import Event
from twice.engine.run import RunResult
from twice.errors import GateFailed, Interrupted, ScopeHeld, TransientError
from twice.ledger import Owner, open_ledger
from twice.model.scopes import Scope

FOR = ("--for", "2026-04-25")


def test_explain_shows_the_stages_and_starts_nothing(project):
    said = project.call("run", "shop", *FOR, "--explain")
    assert said.code == 0
    assert said.out.splitlines()[0] == "shop 2026-04-25/2026-04-26"
    assert said.out.splitlines()[1].startswith("  1. orders: read an external source → overwrite the scope")
    assert "people = lake.core.people as of the run" in said.out
    assert not project.ledger.exists()


def test_explain_needs_no_spark(project):
    code = (
        "import sys\nfrom twice.cli.app import run_command\n"
        "assert run_command(['run', 'shop', '--for', '2026-04-25', '--explain']) == 0\n"
        "assert not {'pyspark', 'py4j'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_explain_as_json_has_one_plan_per_unit(project):
    found = project.call(
        "run", "shop", "--from", "2026-04-25", "--to", "2026-04-28", "--step", "build", "--explain", "--json"
    )
    assert [run["scope"] for run in found.json["runs"]] == [
        "2026-04-25/2026-04-26",
        "2026-04-26/2026-04-27",
        "2026-04-27/2026-04-28",
    ]
    assert [planned["step"] for planned in found.json["runs"][0]["steps"]] == ["build"]
    assert found.json["runs"][0]["steps"][0]["partitions"] == ["2026-04-25"]


class FakeRuns:
    """Stands in for Spark and the ledger: each unit ends as told."""

    def __init__(self, project, monkeypatch, ends):
        self.calls, self.ends = [], list(ends)
        self.ledger = open_ledger(f"sqlite:///{project.folder}/hook.db")
        monkeypatch.setattr("twice.engine.run.execute", self.execute)
        monkeypatch.setattr("twice.cli.settings.Settings.runtime", self.open)

    def open(self, _settings, listener=None):
        from contextlib import nullcontext

        return nullcontext(self)

    def execute(self, _runtime, pipeline, stages, **how):
        self.calls.append(how)
        scope = stages[0].scope
        run = self.ledger.runs.start(pipeline.name, scope, command=how["command"], tags=how["tags"])
        result = RunResult(
            run, pipeline.name, str(scope), "done", [StepResult("orders", "t", str(scope), "published", 7)]
        )
        result.error = self.ends.pop(0)
        if result.error:
            held = {ScopeHeld: "held", Interrupted: "interrupted"}
            result.status = held.get(type(result.error), "failed")
        self.ledger.runs.finish(run, result.status, str(result.error or ""))
        return result


LOOP = ("--from", "2026-04-25", "--to", "2026-04-29")


def test_a_range_is_a_forward_loop_and_the_command_line_is_recorded(project, monkeypatch):
    runs = FakeRuns(project, monkeypatch, [None] * 4)
    said = project.call("run", "shop", *LOOP, "--tag", "who=ana b", "--set", "tenant=o'x", "--step", "orders")
    assert said.code == 0
    assert [text.split()[4] for text in said.out.splitlines()] == [
        "2026-04-25/2026-04-26",
        "2026-04-26/2026-04-27",
        "2026-04-27/2026-04-28",
        "2026-04-28/2026-04-29",
    ]
    words = shlex.split(runs.calls[0]["command"])
    assert words[:3] == ["twice", "run", "shop"]
    assert "tenant=o'x" in words
    assert runs.calls[0]["tags"] == {"who": "ana b"}


def test_an_accepted_gate_reaches_the_run_the_summary_and_the_command_to_repeat_it(project, monkeypatch):
    gated = 'write=Overwrite(), dimensions=["tenant"], gates=[gates.row_count(min=5)])'
    text = (project.folder / f"{project.module}.py").read_text().replace("import Day", "import gates, Day")
    project.code(text.replace('write=Overwrite(), dimensions=["tenant"])', gated, 1))
    runs = FakeRuns(project, monkeypatch, [GateFailed("too few rows")])
    accept = ("--accept", "row count at least 5", "--because", "a holiday")
    said = project.call("run", "shop", *FOR, "--step", "orders", *accept)
    assert runs.calls[0]["accept"] == {"orders": {"row count at least 5": "a holiday"}}
    assert "--accept 'row count at least 5' --because 'a holiday'" in said.err
    details = {"accepted_gates": [{"gate": "row count at least 5"}]}
    done = RunResult("1", "shop", "s", "done", [StepResult("orders", "t", "s", "published", 2, details=details)])
    assert command.summary(done).endswith("orders published (2 rows, accepted: row count at least 5)")


def test_a_loop_stops_at_the_first_failure_and_says_what_to_do_next(project, monkeypatch):
    runs = FakeRuns(project, monkeypatch, [None, GateFailed("too few rows", next_step="look at the source")])
    said = project.call(
        "--profile",
        "default",
        "run",
        "shop",
        *LOOP,
        "--set",
        "tenant=a b",
        "--step",
        "orders",
        "--skip-fresh",
        "--wait",
        "5",
    )
    assert said.code == 3
    assert len(runs.calls) == 2
    last = said.err.splitlines()[-1].strip()
    assert last == (
        "twice --profile default run shop --from 2026-04-26 --to 2026-04-29 --set 'tenant=a b' --step orders "
        "--skip-fresh --wait 5"
    )
    assert "1 of 4 runs are done, 2026-04-26 is not" in said.err
    assert project.call(*shlex.split(last)[1:], "--explain").code == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [(GateFailed("x"), 3), (ScopeHeld("x"), 4), (TransientError("x"), 75), (Interrupted("x"), 130)],
)
def test_exit_codes_and_json(project, monkeypatch, error, code):
    FakeRuns(project, monkeypatch, [error])
    said = project.call("run", "shop", *FOR, "--json")
    assert said.code == code
    assert said.json["exit_code"] == code
    assert said.json["runs"][0]["steps"][0]["rows"] == 7
    assert said.json["next_step"] == "twice run shop --for 2026-04-25"
    assert "next: twice run shop --for 2026-04-25" in said.err


def test_a_python_hook_gets_the_failed_run(project, monkeypatch):
    project.toml(f'on_failure = "{project.module}_hook:tell"')
    project.code(
        "import json\ndef tell(run):\n    open('told.json', 'w').write(json.dumps(run))\n", f"{project.module}_hook"
    )
    FakeRuns(project, monkeypatch, [GateFailed("too few rows")])
    assert project.call("run", "shop", *FOR).code == 3
    told = json.loads((project.folder / "told.json").read_text())
    assert told["pipeline"] == "shop"
    assert told["status"] == "failed"
    assert told["error"] == "too few rows"
    assert told["exit_code"] == 3
    assert told["command"] == "twice run shop --for 2026-04-25"


def test_a_recorded_command_shows_no_secret(project, monkeypatch):
    runs = FakeRuns(project, monkeypatch, [GateFailed("too few rows")])
    monkeypatch.setenv("WAREHOUSE_PASSWORD", "hunter2-of-the-lake")
    project.toml(
        "on_failure = 'cat > told.json'\n[stores.lake]\ntype = 'sql'\nurl = 'postgresql://twice:${WAREHOUSE_PASSWORD}@127.0.0.1/lake'"
    )
    secrets = ["--tag", "api_key=abc def", "--tag", "note=hunter2-of-the-lake", "--tag", "requester=ana"]
    project.call("run", "shop", *FOR, *secrets)
    told = json.loads((project.folder / "told.json").read_text())
    for text in (told["command"], str(runs.calls)):
        assert "abc def" not in text
        assert "hunter2" not in text
        assert "ana" in text


def test_a_shell_hook_gets_it_on_standard_input(project, monkeypatch):
    project.toml('on_failure = "cat > told.json; echo heard"')
    FakeRuns(project, monkeypatch, [GateFailed("too few rows")])
    said = project.call("run", "shop", *FOR, "--json")
    assert said.code == 3
    assert said.json["exit_code"] == 3
    assert json.loads((project.folder / "told.json").read_text())["error"] == "too few rows"


@pytest.mark.parametrize(
    ("hook", "sentence"),
    [
        ("nowhere:tell", "there is no module nowhere"),
        ("{module}:not_a_pipeline", "raised TypeError"),
        ("echo so sad >&2; exit 9", "exited with 9: so sad"),
    ],
)
def test_a_failing_hook_is_told_and_changes_no_exit_code(project, monkeypatch, hook, sentence):
    project.toml(f'on_failure = "{hook.format(module=project.module)}"')
    FakeRuns(project, monkeypatch, [TransientError("network")])
    said = project.call("run", "shop", *FOR)
    assert said.code == 75
    assert "the failure hook failed" in said.err
    assert sentence in said.err


@pytest.mark.parametrize("error", [None, ScopeHeld("held"), Interrupted("stop")])
def test_no_failure_no_hook(project, monkeypatch, error):
    project.toml('on_failure = "touch told"')
    FakeRuns(project, monkeypatch, [error])
    project.call("run", "shop", *FOR)
    assert not (project.folder / "told").exists()


def test_a_machine_that_cannot_start_spark_tells_the_hook_too(project, monkeypatch):
    project.toml('on_failure = "cat > told.json"')
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("twice.engine.spark.session.start", _no_java)
    said = project.call("run", "shop", *FOR)
    assert said.code == 3
    assert "there is none on this machine" in said.err
    told = json.loads((project.folder / "told.json").read_text())
    assert (told["id"], told["status"]) == (None, "failed")


def _no_java(_config):
    from twice.engine.spark.session import require_java

    require_java()


def test_events_are_lines_with_run_and_scope():
    event = Event("published", "r1", "shop", "2026-04-25/2026-04-26", "build", "", {"rows": 3, "seconds": 1.26})
    assert line(event) == "r1  shop.build  2026-04-25/2026-04-26  published  3 rows  1.3 s"
    assert line(Event("failed", "r1", "shop", "s", detail="one\ntwo")) == "r1  shop  s  failed  one"


def test_the_live_table_follows_the_events():
    from rich.console import Console

    board = Board(["orders", "build"])
    for event in (
        Event("planned", "", "shop", "2026-04-25", detail="orders, build"),
        Event("started", "r1", "shop", "2026-04-25"),
        Event("computing", "r1", "shop", "2026-04-25", "orders"),
        Event("published", "r1", "shop", "2026-04-25", "orders", data={"rows": 12}),
        Event("sending", "r1", "shop", "2026-04-25", "orders", "post: 7 confirmed"),
        Event("computing", "r1", "shop", "2026-04-25", "build"),
        Event("failed", "r1", "shop", "2026-04-25", detail="boom"),
    ):
        board.listen(event)
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(board.draw())
    text = console.export_text()
    assert "run r1" in text
    wanted = ("orders", "published", "12", "post: 7 confirmed", "build", "failed")
    assert [word for word in wanted if word not in text] == []


def test_the_live_table_shows_the_plan_and_what_is_waited_for():
    from rich.console import Console

    def text() -> str:
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(board.draw())
        return console.export_text()

    board = Board(["orders", "build"], lambda: "3 of 8 Spark tasks")
    board.listen(Event("planned", "", "shop", "2026-04-25", detail="orders, build"))
    assert "shop  2026-04-25" in text()
    assert text().count("waiting") == 2
    board.listen(Event("starting", "", "shop", "2026-04-25", detail="Spark"))
    assert "starting Spark …" in text()
    board.listen(Event("pinning", "r1", "shop", "2026-04-25", "orders"))
    assert "Spark tasks" not in text()
    board.listen(Event("computing", "r1", "shop", "2026-04-25", "orders"))
    assert "3 of 8 Spark tasks" in text()
    board.listen(Event("staged", "r1", "shop", "2026-04-25", "orders"))
    assert "Spark tasks" not in text()


def test_progress_as_json_lines(project, capsys):
    command_settings = command.Settings(log_format="json")
    from twice.cli.progress import progress

    with progress(command_settings, ["orders"]) as listener:
        listener(Event("published", "r1", "shop", "s", "orders", "", {"rows": 3}))
    found = json.loads(capsys.readouterr().err)
    assert (found["run"], found["step"], found["state"], found["data"]) == ("r1", "orders", "published", {"rows": 3})


def test_quiet_is_quiet_and_text_is_brief(project, capsys):
    from twice.cli.progress import progress

    for verbosity, expected in ((-1, 0), (0, 1), (1, 2)):
        with progress(command.Settings(verbosity=verbosity), []) as listener:
            listener(Event("claimed", "r1", "shop", "s", "orders"))
            listener(Event("published", "r1", "shop", "s", "orders"))
        assert len(capsys.readouterr().err.splitlines()) == expected


def test_a_scope_that_another_run_holds_is_refused_before_spark_starts(project, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("twice.engine.spark.session.start", never)
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    day = Scope(Day.unit("2026-04-25", ZoneInfo("UTC")))
    first = ledger.runs.start("shop", day)
    claim = ledger.leases.claim("lake.raw.orders", [day], ttl=timedelta(minutes=1), run=first)
    said = project.call("run", "shop", *FOR, "--json")
    assert said.code == 4
    (run,) = said.json["runs"]
    assert run["status"] == "held"
    assert f"is held by run {first}" in run["error"]
    assert ledger.runs.get(run["run"]).status == "held"
    # A day that is free, a process that is gone, or a run that may wait: the usual way.
    for words in (("--for", "2026-04-26"), (*FOR, "--wait", "1")):
        assert "Spark was started" in project.call("run", "shop", *words).err
    ledger.leases.release(claim)
    gone = Owner(Owner.here().host, _ended_process())
    ledger.leases.claim("lake.raw.orders", [day], ttl=timedelta(minutes=1), owner=gone)
    assert "Spark was started" in project.call("run", "shop", *FOR).err


@pytest.mark.parametrize(("pipeline", "held"), [("shop", True), ("maintain", False)])
def test_the_table_of_a_later_step_counts_only_if_the_same_run_holds_it(project, monkeypatch, pipeline, held):
    monkeypatch.setattr("twice.engine.spark.session.start", lambda _: (_ for _ in ()).throw(TransientError("started")))
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    day = Scope(Day.unit("2026-04-25", ZoneInfo("UTC")))
    other = ledger.runs.start(pipeline, day)
    ledger.leases.claim("lake.core.facts", [day], ttl=timedelta(minutes=1), run=other)
    assert project.call("run", "shop", *FOR).code == (4 if held else 75)


def _ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_the_first_line_comes_before_spark_starts(project, monkeypatch):
    def too_late(*_: object, **__: object) -> None:
        raise TransientError("no Spark today")

    monkeypatch.setattr("twice.engine.spark.session.start", too_late)
    said = project.call("run", "shop", *FOR)
    assert said.code == 75
    first, second, *_ = said.err.splitlines()
    assert first.startswith("shop  2026-04-25/2026-04-26  planned  orders, ")
    assert second == "shop  2026-04-25/2026-04-26  starting  Spark"
