"""Bad input gets a sentence and exit code 2, and leaves no ledger behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from twice.cli.app import COMMANDS

FOR = ("--for", "2026-04-25")


@pytest.mark.parametrize(
    "command", [[name] for name in COMMANDS] + [["ledger", "prune"], ["ledger", "backup"], ["leases", "release"], []]
)
def test_every_command_explains_itself(project, command):
    said = project.call(*command, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Usage: twice")
    if command not in ([], ["ledger"], ["leases", "release"]):
        assert "twice " + " ".join(command) in said.out.split("\n", 1)[1], "an example"


def test_every_command_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    names = [*COMMANDS, "leases release", "ledger prune", "ledger backup"]
    assert [name for name in names if f"twice {name}" not in text] == []


def test_importing_the_command_line_imports_no_spark():
    code = "import sys, twice.cli; assert not {'pyspark', 'py4j', 'sqlalchemy', 'rich'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


BAD = {
    "no window": (["run", "shop"], "There is no default, not even yesterday"),
    "both windows": (["run", "shop", *FOR, "--to", "2026-04-26"], "either --for, or --from and --to"),
    "no end": (["run", "shop", "--from", "2026-04-25"], "--from needs --to beside it"),
    "no start": (["run", "shop", "--to", "2026-04-25"], "--to needs --from beside it"),
    "end before start": (["run", "shop", "--from", "2026-04-25", "--to", "2026-04-20"], "must end after it starts"),
    "empty range": (["run", "shop", "--from", "2026-04-25", "--to", "2026-04-25"], "must end after it starts"),
    "no date": (["run", "shop", "--for", "yesterday"], "'yesterday' is not a day: write it like 2026-04-25"),
    "no such date": (["run", "shop", "--for", "2026-02-30"], "'2026-02-30' is not a day"),
    "off the grain": (
        ["run", "shop", "--for", "2026-04-25T13:00"],
        "is not the start of a day: nearest are 2026-04-25",
    ),
    "unknown step": (["run", "shop", *FOR, "--step", "biuld"], "no step 'biuld'; its steps are: orders, build, merge"),
    "unknown dimension": (
        ["run", "shop", *FOR, "--set", "country=de"],
        "no dimension 'country'; its dimensions are: tenant",
    ),
    "no value": (["run", "shop", *FOR, "--set", "tenant"], "--set 'tenant' must look like name=value"),
    "empty value": (["run", "shop", *FOR, "--set", "tenant="], "must look like name=value"),
    "two values": (["run", "shop", *FOR, "--set", "tenant=a", "--set", "tenant=b"], "gives tenant two values: a and b"),
    "bad tag": (["run", "shop", *FOR, "--tag", "x"], "--tag 'x' must look like name=value"),
    "negative wait": (["run", "shop", *FOR, "--wait", "-1"], "x>=0"),
    "unknown gate": (
        ["run", "shop", *FOR, "--accept", "row count", "--because", "x"],
        "no step of this run has a gate 'row count'",
    ),
    "accept without a reason": (["run", "shop", *FOR, "--accept", "x"], "--because"),
    "a reason for nothing": (["run", "shop", *FOR, "--because", "x"], "--accept"),
    "accept for many": (
        ["run", "shop", "--from", "2026-04-25", "--to", "2026-04-27", "--accept", "x", "--because", "x"],
        "--accept lets one unit through: give it with --for",
    ),
    "unknown pipeline": (["run", "shopp", *FOR], "no pipeline 'shopp' in"),
    "near pipeline": (["run", "shopp", *FOR], "there are: shop. Did you mean shop?"),
    "no module": (["run", "nowhere.at.all:shop", *FOR], "there is no module nowhere.at.all in"),
    "half a place": (["run", ":shop", *FOR], 'must look like "module:object"'),
    "unknown command": (["rnu"], "There is no command 'rnu'. Did you mean run?"),
    "unknown option": (["run", "shop", "--fro", "x"], "No such option"),
    "status off the grain": (["status", "shop", "--from", "2026-04-25T01:00"], "is not the start of a day"),
    "status end before start": (
        ["status", "shop", "--from", "2026-04-25", "--to", "2026-04-01"],
        "which is not after its start, ",
    ),
    "show nothing": (["show", "abc"], "no run begins with 'abc': nothing has run yet"),
    "undo nothing": (["undo", "abc"], "no run begins with 'abc': nothing has run yet"),
    "prune without a duration": (
        ["ledger", "prune", "--keep", "a year"],
        "--keep must be a duration such as 7d, 12h or 30m, got 'a year'",
    ),
    "maintain without a duration": (["maintain", "--keep", "7"], "must be a duration such as 7d"),
    "maintain a stranger": (
        ["maintain", "--table", "lake.x.y"],
        "no pipeline writes lake.x.y; they write: lake.core.facts",
    ),
    "release nothing": (["leases", "release", "lake.x.y", "7"], "there is no such lease"),
    "release half a name": (["leases", "release", "x", "7"], "is not a full table name"),
    "contract twice": (["contract", "--check", "a", "--write", "b"], "--check or --write, not both"),
    "contract of nothing": (["contract", "--check", "absent.md"], "there is no file absent.md"),
    "no configuration": (["--config", "absent.toml", "runs"], "there is no configuration file absent.toml"),
    "no profile": (["--profile", "prod", "runs"], "no profile 'prod'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_with_a_sentence(project, case):
    arguments, sentence = BAD[case]
    before = sorted(project.folder.iterdir())
    said = project.call(*arguments)
    assert said.code == 2
    assert sentence in said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    assert not project.ledger.exists()
    assert [path for path in sorted(project.folder.iterdir()) if path.name != "__pycache__"] == before


def test_a_dimension_that_one_step_lacks_is_refused(project):
    project.code(
        "from twice import *\nshop = Pipeline('shop', grain=Day)\n"
        "a = Table('lake.a.a', partition=Day('d'), write=Overwrite(), dimensions=['tenant'])\n"
        "b = Table('lake.a.b', partition=Day('d'), write=Overwrite())\n"
        "shop.sql('a', reads={}, writes=a, query='select 1')\nshop.sql('b', reads={}, writes=b, query='select 1')\n"
    )
    said = project.call("run", "shop", *FOR, "--set", "tenant=acme")
    assert said.code == 2
    assert "would replace the rows of all of them" in said.err
    assert project.call("run", "shop", *FOR, "--set", "tenant=acme", "--step", "a", "--explain").code == 0


BROKEN = {
    "not toml": ("[pipelines\n", "is not valid TOML"),
    "unknown section": ("[piplines]\n", "has piplines, which twice does not know"),
    "misspelt setting": ('[stores.app]\ntype = "sql"\nurll = "x"\n', "Did you mean url?"),
    "a list": ("pipelines = [1]\n", "[pipelines] in"),
    "no place": ('[pipelines]\nshop = "shop"\n', 'must look like "module:object"'),
    "unknown store": ('[stores.lake]\ntype = "excel"\n', "type is 'excel'; it must be one of: iceberg"),
    "no secret": ('[ledger]\nurl = "sqlite:///${TWICE_NOT_SET}"\n', "the environment has no TWICE_NOT_SET"),
    "bad lease": ("[lease]\nseconds = 0\n", "must be a number above 0"),
    "bad packages": ("[profiles.default]\npackages = 'x'\n", "must be a list of texts"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("command", [["run", "shop", *FOR], ["status"], ["runs"], ["contract"]], ids=lambda c: c[0])
def test_a_broken_configuration_is_named(project, case, command):
    text, sentence = BROKEN[case]
    (project.folder / "twice.toml").write_text(text)
    said = project.call(*command)
    assert said.code == 2
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert not project.ledger.exists()


def test_a_password_in_the_configuration_is_never_shown(project, monkeypatch):
    monkeypatch.setenv("LEDGER_PASSWORD", "s3cret")
    project.toml('[ledger]\nurl = "mysql://ana:${LEDGER_PASSWORD}@db/ledger?password=s3cret"\n')
    for command in (["runs"], ["doctor"], ["-v", "doctor", "--json"], ["-v", "status"]):
        said = project.call(*command)
        assert said.code in (1, 2)
        assert "s3cret" not in said.out + said.err


def test_an_unreadable_ledger_is_told_and_left_alone(project):
    project.ledger.parent.mkdir()
    project.ledger.write_text("these are notes, not a ledger " * 40)
    before = project.ledger.read_bytes()
    for command in (["runs"], ["status"], ["leases"], ["ledger", "prune", "--keep", "1d"]):
        said = project.call(*command)
        assert said.code == 3
        assert "is not a ledger" in said.err
    assert project.ledger.read_bytes() == before


def test_verbose_adds_the_traceback(project):
    assert "Traceback" in project.call("-v", "run", "shop").err


def test_errors_can_be_json_lines(project):
    import json

    said = project.call("--log-format", "json", "run", "shop")
    line = json.loads(said.err)
    assert line["level"] == "error"
    assert line["exit_code"] == 2
    assert "no default" in line["message"]


def test_a_surprise_is_one_sentence_and_where_to_report_it(project, monkeypatch):
    def explode(*_):
        raise ZeroDivisionError("by\nnothing")

    monkeypatch.setattr("twice.cli.settings.Settings.ledger_if_any", explode)
    said = project.call("runs")
    assert said.code == 3
    assert said.err.splitlines()[0] == "error: an unexpected error occurred in twice itself: ZeroDivisionError: by"
    assert "report it" in said.err
    assert "Traceback" not in said.err
    assert "Traceback" in project.call("-v", "runs").err


def test_ctrl_c_is_130(project, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("twice.cli.settings.Settings.ledger_if_any", interrupt)
    said = project.call("runs")
    assert said.code == 130
    assert "interrupted" in said.err


def test_sigterm_is_130(project):
    code = (
        "import os, signal, sys, time, twice.cli.settings as s\n"
        "s.Settings.ledger_if_any = lambda self: (print('here', flush=True), time.sleep(60))\n"
        "sys.argv = ['twice', 'runs']\nfrom twice.cli import main\nmain()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "here\n"
    child.terminate()
    assert child.wait(20) == 130
    assert "interrupted" in child.stderr.read()


def test_what_fails_because_of_sigterm_is_130_too(project):
    """SIGTERM to a whole process group ends Spark's JVM with us, and then every call to it fails."""
    code = (
        "import sys, time, twice.cli.settings as s\n"
        "def fail(self):\n"
        "    try:\n        print('here', flush=True)\n        time.sleep(60)\n"
        "    finally:\n        raise ConnectionError('the JVM is gone')\n"
        "s.Settings.ledger_if_any = fail\n"
        "sys.argv = ['twice', 'runs']\nfrom twice.cli import main\nmain()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "here\n"
    child.terminate()
    assert child.wait(20) == 130
    assert child.stderr.read().startswith("error: interrupted\n")


def test_python_m_twice_is_the_command_line(project):
    done = subprocess.run([sys.executable, "-m", "twice", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("twice, version ")
