"""`twice ledger`, and the commands that read a ledger which lives on a Postgres server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tests.support.servers import PASSWORD
from twice.ledger import Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

START = datetime(2026, 4, 25, tzinfo=timezone.utc)
DAY = Scope.of(Window(START, START + timedelta(days=1)))
TABLE = "lake.core.facts"


@pytest.fixture
def server(project, postgres_database, monkeypatch):
    """A project whose profile `prod` keeps its ledger in Postgres."""
    monkeypatch.setenv("LEDGER", postgres_database)
    project.toml('[profiles.prod.ledger]\nurl = "${LEDGER}"')
    return postgres_database


def fill(url):
    ledger = open_ledger(url)
    run = ledger.runs.start("shop", DAY, command="twice run shop --for 2026-04-25")
    attempt = ledger.attempts.start(run, "build", TABLE, 1, DAY, code="c")
    claim = ledger.leases.claim(TABLE, [DAY], ttl=timedelta(minutes=9), run=run)
    ledger.leases.bind(attempt, claim, base_version="7", inputs=())
    ledger.outputs.record(claim, attempt, [Output(TABLE, DAY, 3, "3-a", "f", "8", "shop", "build", "c", ())])
    ledger.runs.finish(run, "done")
    ledger.leases.claim(TABLE, [DAY], ttl=timedelta(minutes=9))
    return run


def test_migrate_makes_the_ledger_and_check_only_looks(project):
    assert project.call("ledger", "migrate", "--check").code == 1
    assert "does not exist yet" in project.call("ledger", "migrate", "--check").out
    assert not project.ledger.exists()
    made = project.call("ledger", "migrate", "--json")
    assert (made.code, made.json["before"], made.json["up_to_date"]) == (0, None, True)
    assert "is up to date" in project.call("ledger", "migrate", "--check").out
    again = project.call("ledger", "migrate")
    assert (again.code, "is up to date" in again.out) == (0, True)


def test_a_ledger_moves_to_postgres_and_back(project, server):
    fill(f"sqlite:///{project.ledger}")
    said = project.call("ledger", "export", "out.jsonl")
    assert said.code == 0
    assert "1 leases are live" in said.out
    prod = ("--profile", "prod")
    assert project.call(*prod, "ledger", "import", "out.jsonl").code == 0
    assert "nothing was changed" in project.call(*prod, "ledger", "import", "out.jsonl").out
    for question in (["runs", "--json"], ["leases", "--json"], ["status", "shop", "--json"]):
        here, there = project.call(*question), project.call(*prod, *question)
        assert here.code == there.code == 0
        assert here.json == there.json
    back = project.call(*prod, "ledger", "export", "back.jsonl", "--json").json
    assert back["live_leases"] == 1
    out, again = (project.folder / name for name in ("out.jsonl", "back.jsonl"))
    assert out.read_text().splitlines()[1:] == again.read_text().splitlines()[1:]
    assert project.call("ledger", "export", "out.jsonl").code == 2


def test_a_ledger_that_is_not_empty_is_left_alone(project, server):
    fill(f"sqlite:///{project.ledger}")
    fill(server)
    assert project.call("ledger", "export", "out.jsonl").code == 0
    said = project.call("--profile", "prod", "ledger", "import", "out.jsonl")
    assert said.code == 2
    assert "is not empty" in said.err
    assert PASSWORD not in said.err
    assert project.call("ledger", "import", "nowhere.jsonl").code == 2


def test_a_server_without_a_ledger_is_no_error(project, server):
    prod = ("--profile", "prod")
    assert project.call(*prod, "runs").out == "no runs yet\n"
    assert project.call(*prod, "leases").out == "nothing is held\n"
    assert project.call(*prod, "status", "shop").code == 0
    assert project.call(*prod, "ledger", "export", "out.jsonl").code == 3


def test_leases_are_listed_and_taken_over_on_a_server(project, server):
    run = fill(server)
    prod = ("--profile", "prod")
    assert run in project.call(*prod, "runs").out
    assert [lease["token"] for lease in project.call(*prod, "leases", "--json").json] == [2]


def finding(said):
    return next(each for each in said.json["findings"] if each["name"] == "ledger")


def test_doctor_looks_at_the_server(project, server, monkeypatch):
    prod = ("--profile", "prod", "doctor", "--json")
    assert "the first run creates the ledger there" in finding(project.call(*prod))["text"]
    fill(server)
    found = finding(project.call(*prod))
    assert found["ok"]
    assert "Postgres 1" in found["text"]
    assert "clock" not in found["text"]
    ahead = datetime.now(timezone.utc) - timedelta(seconds=90)
    monkeypatch.setattr("twice.ledger.db.clock.SystemClock.now", lambda _self: ahead)
    said = project.call(*prod)
    assert finding(said)["ok"]
    assert "ahead of this machine's" in finding(said)["text"]
    assert PASSWORD not in said.out


def test_a_server_that_is_not_there_is_a_transient_error_without_its_password(project, monkeypatch):
    monkeypatch.setenv("LEDGER", "postgresql://ana:geheim@127.0.0.1:1/ledger")
    project.toml('[ledger]\nurl = "${LEDGER}"')
    for command in (["runs"], ["ledger", "migrate"], ["leases"]):
        said = project.call(*command)
        assert said.code == 75
        assert "cannot be reached" in said.err
        assert "geheim" not in said.out + said.err
    said = project.call("doctor", "--json")
    assert not finding(said)["ok"]
    assert "geheim" not in said.out


def test_a_backup_of_a_server_names_the_tool(project, server):
    open_ledger(server)
    said = project.call("--profile", "prod", "ledger", "backup", "copy.db")
    assert said.code == 3
    assert "pg_dump" in said.err
