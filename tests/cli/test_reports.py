"""Runs, leases, the ledger, contracts, init and doctor: what they print and how they end."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

from twice.engine import doctor
from twice.engine.spark.jars import cache
from twice.ledger import InputRecord, Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

START = datetime(2026, 4, 25, tzinfo=timezone.utc)
DAY = Scope.of(Window(START, START + timedelta(days=1)))
TABLE = "lake.core.facts"


@pytest.fixture
def history(project):
    """One run that published, one that failed, and one lease that is held."""
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    inputs = (InputRecord("raw", "lake.raw.orders", "window", "41", {START.isoformat(): "digest:1-a-b-c"}),)
    good = ledger.runs.start("shop", DAY, command="twice run shop --for 2026-04-25", tags={"who": "ana"})
    row = ledger.attempts.start(good, "build", TABLE, 1, DAY, code="c")
    claim = ledger.leases.claim(TABLE, [DAY], ttl=timedelta(minutes=1), run=good)
    ledger.leases.bind(row, claim, base_version="7", inputs=inputs)
    output = Output(TABLE, DAY, 3, "3-a-b-c", "f", "8", "shop", "build", "c", inputs)
    ledger.outputs.record(claim, row, [output], status="published")
    ledger.runs.finish(good, "done")
    bad = ledger.runs.start("shop", DAY)
    row = ledger.attempts.start(bad, "build", TABLE, 1, DAY, code="c")
    ledger.attempts.finish(row, "failed", error="boom\n  next: repair", transient=True)
    ledger.runs.finish(bad, "failed", "boom\n  next: repair")
    held = ledger.leases.claim(TABLE, [DAY], ttl=timedelta(minutes=1), run=bad)
    return good, bad, held


def test_runs_are_listed_newest_first(project, history):
    good, bad, _ = history
    said = project.call("runs")
    assert said.code == 0
    heads = [text.split() for text in said.out.splitlines()]
    assert heads[0][:4] == ["run", "pipeline", "scope", "status"]
    assert [(words[0], words[3]) for words in heads[1:]] == [(bad, "failed"), (good, "done")]
    assert [run["id"] for run in project.call("runs", "shop", "--limit", "1", "--json").json] == [bad]


def test_without_a_ledger_there_is_nothing_and_none_is_made(project):
    assert project.call("runs").out == "no runs yet\n"
    assert project.call("runs", "--json").json == []
    assert project.call("leases").out == "nothing is held\n"
    assert project.call("ledger", "backup", "copy.db").code == 3
    assert project.call("ledger", "prune", "--keep", "1d").code == 3
    assert not project.ledger.parent.exists()


def test_a_run_in_full(project, history):
    good, bad, _ = history
    said = project.call("show", good[:-1] if not bad.startswith(good[:-1]) else good)
    for text in (
        f"run {good}: done",
        "command   twice run shop --for 2026-04-25",
        "tag       who=ana",
        f"build → {TABLE}, 2026-04-25/2026-04-26, attempt 1: published",
        "read raw = lake.raw.orders (window) at version 41",
        "holds 2026-04-25/2026-04-26: 3 rows, digest 3-a-b-c",
    ):
        assert text in said.out
    document = project.call("show", good, "--json").json
    assert document["attempts"][0]["inputs"][0]["version"] == "41"
    assert document["attempts"][0]["outputs"][0]["digest"] == "3-a-b-c"
    assert "error (transient) boom" in project.call("show", bad).out


def test_an_unknown_or_ambiguous_run(project, history):
    assert "no run begins with 'zzz'" in project.call("show", "zzz").err
    assert "several runs begin with '0'" in project.call("show", "0").err


def test_leases(project, history):
    bad, held = history[1], history[2]
    said = project.call("leases")
    assert [TABLE, str(held.token)] == said.out.splitlines()[1].split()[:2]
    assert bad in said.out
    assert project.call("leases", "--json").json[0]["token"] == held.token
    said = project.call("leases", "release", TABLE, "99")
    assert said.code == 2
    assert "there is no such lease" in said.err


def test_undo_wants_a_yes_when_nobody_can_be_asked(project, history, monkeypatch):
    monkeypatch.setattr(sys, "stdin", open("/dev/null"))  # noqa: SIM115, PTH123
    said = project.call("undo", history[0])
    assert said.code == 2
    assert "needs a confirmation" in said.err
    assert said.err.rstrip().endswith("--yes")


def test_prune_and_backup(project, history):
    report = project.call("ledger", "prune", "--keep", "400d", "--dry-run", "--json").json
    assert (report["dry_run"], report["runs"]) == (True, 0)
    assert "removed 0 runs" in project.call("ledger", "prune", "--keep", "400d").out
    assert project.call("ledger", "backup", "copy.db").out == "wrote copy.db\n"
    assert len(open_ledger(f"sqlite:///{project.folder}/copy.db", create=False).runs.list()) == 2
    said = project.call("ledger", "backup", "copy.db")
    assert said.code == 2
    assert "a backup overwrites nothing" in said.err


def test_s43_contract_check_and_write(project):
    text = project.call("contract").out
    assert text.startswith("# Contracts of shop\n")
    assert project.call("contract", "shop").out == text
    assert project.call("contract", "--write", "contracts.md").code == 0
    assert (project.folder / "contracts.md").read_text() == text
    assert project.call("contract", "--check", "contracts.md").code == 0
    (project.folder / "contracts.md").write_text(text.replace("overwrite the scope", "append"))
    said = project.call("contract", "--check", "contracts.md")
    assert said.code == 1
    assert "-| Write pattern | append |" in said.out
    assert "+| Write pattern | overwrite the scope |" in said.out
    assert "next: twice contract --write contracts.md" in said.err
    said = project.call("contract", "--check", "contracts.md", "--json")
    assert (said.code, said.json["up_to_date"]) == (1, False)
    assert project.call("contract", "--json").json == {"pipelines": ["shop"], "markdown": text}


def test_init_writes_a_project_that_can_be_explained(project, monkeypatch):
    said = project.call("init", "fresh", "--name", "first")
    assert said.code == 0
    assert "twice run first --for 2026-04-25" in said.out
    assert (project.folder / "fresh" / ".gitignore").read_text().splitlines()[0] == ".twice/"
    command = [sys.executable, "-m", "twice", "run", "first", "--for", "2026-04-25", "--explain"]
    done = subprocess.run(command, cwd=project.folder / "fresh", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1. orders" in done.stdout
    for name in ("jobs/first.py", "tests/test_first.py"):
        code = (project.folder / "fresh" / name).read_text()
        compile(code, name, "exec")
        assert "$" not in code


def test_init_overwrites_nothing(project):
    (project.folder / "jobs").mkdir()
    (project.folder / "jobs" / "sales.py").write_text("mine")
    said = project.call("init")
    assert said.code == 2
    assert "twice.toml, jobs/sales.py already exist" in said.err
    assert (project.folder / "jobs" / "sales.py").read_text() == "mine"
    assert not (project.folder / ".gitignore").exists()
    assert project.call("init", "x", "--name", "My Name").code == 2
    assert project.call("init", "twice.toml").code == 2


def finding(said, name):
    (found,) = [each for each in said.json["findings"] if each["name"] == name]
    return found


def test_doctor_without_java_says_what_to_install(project, monkeypatch, tmp_path_factory):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    said = project.call("doctor", "--json")
    assert said.code == 1
    assert not said.json["ok"]
    assert finding(said, "Java")["text"] == "none; Spark needs Java 17 or newer"
    assert "openjdk-17" in finding(said, "Java")["next_step"]
    assert "problem  Java: none" in project.call("doctor").out


def test_doctor_without_jars_names_the_command(project, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said = project.call("doctor", "--json")
    assert said.code == 1
    assert finding(said, "jars")["next_step"] == "twice doctor --fetch"


def test_doctor_on_a_broken_configuration_goes_on(project):
    (project.folder / "twice.toml").write_text("[[[")
    said = project.call("doctor", "--json")
    assert said.code == 1
    assert "is not valid TOML" in finding(said, "configuration")["text"]
    assert finding(said, "PySpark")["ok"]


def test_doctor_makes_no_archive_for_a_broken_configuration(project, monkeypatch):
    monkeypatch.setattr("twice.engine.warming.make", lambda *_: pytest.fail("was made"))
    (project.folder / "twice.toml").write_text("[[[")
    said = project.call("doctor", "--warm")
    assert said.code == 2
    assert "is not valid TOML" in said.err


def test_doctor_on_a_broken_ledger(project):
    project.ledger.parent.mkdir()
    project.ledger.write_bytes(b"no database" * 100)
    said = project.call("doctor", "--json")
    assert said.code == 1
    assert "is not a ledger" in finding(said, "ledger")["text"]


def test_doctor_is_content_with_a_good_ledger_and_with_none(project, history):
    assert finding(project.call("doctor", "--json"), "ledger")["ok"]
    shutil.rmtree(project.ledger.parent)
    assert "the first run creates" in finding(project.call("doctor", "--json"), "ledger")["text"]
    assert not project.ledger.parent.exists()


def test_doctor_sees_a_clock_that_is_wrong(project):
    from twice import config as configuration
    from twice.ledger import ManualClock

    config = configuration.load()
    assert not doctor.clock(config, datetime(1970, 1, 2, tzinfo=timezone.utc)).ok
    assert not doctor.clock(config, datetime.now(timezone.utc) - timedelta(days=2)).ok
    assert doctor.clock(config, datetime.now(timezone.utc)).ok
    clock = ManualClock(datetime.now(timezone.utc) + timedelta(days=3))
    open_ledger(config.ledger, clock=clock).runs.start("shop", DAY)
    found = doctor.ledger(config)
    assert not found.ok
    assert "from the future" in found.text


def test_doctor_fetches_nothing_when_all_is_there(project, monkeypatch):
    if doctor.jars.missing(doctor.packages(project_config())):
        pytest.skip("the jars are not here")
    (project.folder / "twice.toml").unlink()
    said = project.call("doctor", "--fetch")
    assert said.code == 0
    assert "configuration" not in said.out
    assert str(cache()) in said.out


def project_config():
    from twice import config as configuration

    return configuration.load()


def test_doctor_tells_when_fetching_failed(project, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    said = project.call("doctor", "--fetch")
    assert said.code == 3
    assert "there is none on this machine" in said.err
