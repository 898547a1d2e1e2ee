"""`twice verify`: what it prints, writes and refuses; what checks find is tested in tests/verify."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from tests.verify.modules import DAY, FAULTY, Modules
from twice.cli.settings import Settings
from twice.cli.verify import Order, verify_all
from twice.cli.verifying import Board, watching
from twice.errors import Interrupted
from twice.verify.checks import ALL, chosen
from twice.verify.trial import NotRun, Outcome

MENDED = FAULTY.replace("next(calls)", "0")


def test_the_checks_are_listed_with_their_promises_without_spark(project):
    said = project.call("verify", "--list")
    assert (said.code, said.err) == (0, "")
    for check in ALL:
        assert f"{check.name}{' (quick)' if check.quick else ''}: {check.promise}" in said.out.splitlines()
    listed = project.call("verify", "--list", "--json").json
    assert [(each["check"], each["promise"], each["quick"]) for each in listed] == [
        (check.name, check.promise, check.quick) for check in ALL
    ]
    assert all(each["text"] for each in listed)
    assert not project.ledger.exists()


def test_every_check_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    rows = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| `")
    }
    assert {f"`{check.name}`": "yes" if check.quick else "" for check in ALL}.items() <= rows.items()


BAD = {
    "no pipeline": (["verify"], "which pipeline?"),
    "no unit": (["verify", "shop"], "There is no default, not even yesterday"),
    "off the grain": (["verify", "shop", "--for", "2026-04-25T13:00"], "is not the start of a day"),
    "unknown check": (
        ["verify", "shop", "--for", DAY, "--check", "run-twise"],
        "there is no check 'run-twise'. Did you mean run-twice?",
    ),
    "a quote": (["verify", "shop", "--for", DAY, "--check", "it's"], 'there is no check "it\'s"'),
    "unknown step": (["verify", "shop", "--for", DAY, "--step", "it's"], 'no step "it\'s"'),
    "quick and thorough": (
        ["verify", "shop", "--for", DAY, "--quick", "--thorough"],
        "give one of --quick, --thorough",
    ),
    "quick and a check": (["verify", "shop", "--for", DAY, "--quick", "--check", "run-twice"], "give one of --quick"),
    "no sample": (["verify", "shop", "--for", DAY, "--sample", "0"], "x>=1"),
    "the ledger's folder": (["verify", "shop", "--for", DAY, "--sandbox", ".twice"], "holds the ledger of production"),
    "production": (["verify", "shop", "--for", DAY, "--sandbox", "lake"], "holds store lake of production"),
    "a default place": (["verify", "shop", "--for", DAY, "--sandbox", ".twice/files"], "store files of production"),
    "in production": (["verify", "shop", "--for", DAY, "--sandbox", "lake/new"], "lies in store lake of production"),
    "around production": (["verify", "shop", "--for", DAY, "--sandbox", "."], "of production"),
    "a file as a folder": (["verify", "shop", "--for", DAY, "--save-case", "twice.toml"], "is a file"),
    "below a file": (["verify", "shop", "--for", DAY, "--junit", "twice.toml/x.xml"], "cannot be written to"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_with_a_sentence_before_spark_starts(project, case):
    words, sentence = BAD[case]
    project.toml('[stores.lake]\ntype = "iceberg"\nwarehouse = "lake"\ncatalog = "sqlite:///.twice/catalog.db"\n'
                 '[stores.files]\ntype = "parquet"\n')  # fmt: skip
    before = sorted(project.folder.iterdir())
    said = project.call(*words)
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert [path for path in sorted(project.folder.iterdir()) if path.name != "__pycache__"] == before


def outcome(status="passed"):
    return Outcome("run-twice", "a promise", status, "same rows in verify_lake.c1_core.facts", (), 1.26)


def shown(board):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(board.draw())
    return [line.split() for line in console.export_text().splitlines()]


def test_a_terminal_shows_what_is_done_now_and_what_came_of_the_rest():
    board = Board(["run-twice", "order", "empty"])
    assert shown(board)[0][:2] == ["starting", "Spark"]
    board.report("copying inputs")
    assert shown(board)[0][:2] == ["copying", "inputs"]
    board.report("run-twice")
    board.seen(outcome("failed"))
    board.report("order")
    lines = shown(board)
    assert lines[0] == ["1", "of", "3", "checks"]
    assert lines[2] == ["run-twice", "failed", "1.3"]
    assert lines[3][:2] == ["order", "running"]
    assert lines[4] == ["empty"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), ["a clean run", "run-twice  passed  1.3 s  same rows in lake.core.facts"]),
        (Settings(verbosity=1), ["a clean run", "run-twice", "run-twice  passed  1.3 s  same rows in lake.core.facts"]),
        (Settings(verbosity=-1), []),
    ],
)
def test_elsewhere_progress_is_one_line_for_each_check(settings, said, capsys):
    with watching(settings, ["run-twice"]) as watcher:
        watcher.report("a clean run")
        watcher.report("run-twice")
        watcher.seen(outcome())
    assert capsys.readouterr().err.splitlines() == said


def test_progress_can_be_json_lines(capsys):
    with watching(Settings(log_format="json"), ["run-twice"]) as watcher:
        watcher.report("a clean run")
        watcher.report("run-twice")
        watcher.seen(outcome())
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["state"], line.get("check")) for line in lines] == [
        ("a clean run", None), ("checking", "run-twice"), ("passed", "run-twice"),
    ]  # fmt: skip
    assert lines[-1]["data"] == {"seconds": 1.26}


class Verified:
    """A pipeline in a module, verified by the command line on the Spark of the test process."""

    def __init__(self, modules, capsys):
        self.modules, self.lab, self.capsys = modules, modules.lab, capsys

    def order(self, body, *checks, arguments=(), **how):
        settings = Settings(arguments=["verify", "it's", *arguments], profile=how.pop("profile", None))
        settings.config = replace(self.lab.config, pipelines={"it's": f"{self.modules.name}:sales"})
        pipeline = self.modules.write(body, count=how.pop("count", 18))
        unit = pipeline.grain.unit(how.pop("unit", DAY), pipeline.zone)
        return Order(settings, "it's", pipeline, unit, chosen(checks, quick=False), **how)

    def call(self, order, *, as_json=False):
        self.capsys.readouterr()
        code = verify_all(order, as_json=as_json, runtime=self.lab.runtime)
        said = self.capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def verified(lab, lakehouse, monkeypatch, capsys):
    monkeypatch.chdir(lakehouse)
    monkeypatch.setattr("twice.verify.checks.ALL", (*ALL, CannotBeMade(), Stops()))
    return Verified(Modules(lab, monkeypatch), capsys)


class CannotBeMade:
    """Never made."""

    name, promise, quick = "nowhere", "a check that no place can make", False

    def __call__(self, trial):
        raise NotRun("there is no such place")


class Stops:
    """Ends as Ctrl-C does."""

    name, promise, quick = "stops", "a check that is interrupted", False

    def __call__(self, trial):
        raise KeyboardInterrupt


@pytest.mark.spark
def test_what_fails_is_printed_with_its_evidence_and_written_to_files(verified):
    folder = verified.lab.folder
    files = {"junit": folder / "new" / "verify.xml", "html": folder / "verify.html"}
    how = {"profile": "it's", "seed": 7, "sandbox": folder / "kept"}
    order = verified.order(FAULTY, "run-twice", "nowhere", **how, **files)
    with verified.lab.untouched("orders"):
        code, out, err = verified.call(order)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].split() == ["check", "status", "what", "was", "seen", "seconds"]
    assert lines[1].startswith("run-twice  failed   1 found")
    assert lines[2].startswith("nowhere    not run  there is no such place")
    assert any(" ".join(line.split()) == "row column after one run after the second run difference" for line in lines)
    kept = f"--sandbox {folder}/kept"
    repeat = f"""twice --profile 'it'"'"'s' verify 'it'"'"'s' --for {DAY} {kept} --check run-twice --seed 7"""
    assert f"  repeat: {repeat}" in lines
    assert lines[-1].startswith(f"sales {DAY}: 0 passed, 1 failed, 1 not run (seed 7, ")
    assert [line.split("  ")[:2] for line in err.splitlines()] == [
        ["copying inputs"], ["a clean run"], ["run-twice", "failed"], ["nowhere", "not run"],
    ]  # fmt: skip
    suite = ET.parse(files["junit"]).getroot()[0]  # noqa: S314 - our own file
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert repeat in suite.find("testcase/failure").text
    assert "not run" in files["html"].read_text()
    # The sandbox is kept in a folder of its own, and nothing is in production.
    assert [path.name for path in (folder / "kept").iterdir()] == ["verify-1"]
    assert not verified.lab.exists("sales")


@pytest.mark.spark
def test_a_healthy_pipeline_is_exit_code_0_and_one_json_document(verified):
    order = verified.order(MENDED, "run-twice", sample=3)
    code, out, _ = verified.call(order, as_json=True)
    found = json.loads(out)
    assert (code, found["exit_code"]) == (0, 0)
    assert [(each["check"], each["status"]) for each in found["checks"]] == [("run-twice", "passed")]
    assert found["inputs"] == {verified.lab.name("orders"): 3}
    assert "--sample" in " ".join(order.words)


TWO_INPUTS = """
customers = Table("{customers}")
by_customer = Table("{sales}", partition=Day("d"), key=["d", "customer"], write=Overwrite())

@sales.step(reads={{"orders": orders, "customers": customers.latest()}}, writes=by_customer)
def per_customer(orders, customers):
    return orders.join(customers, "customer").groupBy("d", "customer").agg(F.count("*").alias("orders"))
"""


@pytest.mark.full
@pytest.mark.spark
def test_sampling_that_may_break_joins_is_warned_of(verified):
    verified.lab.sql("create table {space}.customers using iceberg as select concat('c', id) customer from range(10)")
    body = TWO_INPUTS.replace("{customers}", verified.lab.name("customers"))
    code, out, _ = verified.call(verified.order(body, "nowhere", sample=5))
    assert code == 1  # no check was run, so nothing is proven
    assert out.splitlines()[0].startswith("warning: each input was sampled to 5 rows by itself: joins may find no")
    assert "0 passed, 0 failed, 1 not run" in out


@pytest.mark.spark
def test_a_pipeline_that_cannot_run_at_all_is_said_once(verified):
    body = MENDED.replace("return orders", "raise ValueError('no such thing')\n    return orders")
    junit = verified.lab.folder / "verify.xml"
    code, out, err = verified.call(verified.order(body, "run-twice", "deterministic", "order", junit=junit))
    assert (code, out) == (3, "")
    said = [line for line in err.splitlines() if "per_customer" in line]
    assert len(said) == 1
    assert said[0].startswith(f"error: sales {DAY} cannot be verified: ")
    assert "verify_lake" not in err, "names of the sandbox"
    suite = ET.parse(junit).getroot()[0]  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    code, out, _ = verified.call(verified.order(body, "run-twice"), as_json=True)
    assert (json.loads(out)["exit_code"], json.loads(out)["checks"]) == (3, [])


@pytest.mark.spark
def test_a_unit_without_data_is_refused_with_one_that_has(verified):
    with pytest.raises(Exception, match="no input of sales has rows for 2026-05-25") as failure:
        verified.call(verified.order(MENDED, "run-twice", unit="2026-05-25"))
    assert failure.value.exit_code == 2
    assert failure.value.next_step == "choose one that has: --for 2026-04-25 or --for 2026-04-24"


@pytest.mark.spark
def test_ctrl_c_shows_what_was_done_and_says_the_command(verified):
    order = verified.order(MENDED, "nowhere", "stops", "run-twice", arguments=["--for", DAY])
    with pytest.raises(Interrupted) as stopped:
        verified.call(order)
    assert stopped.value.exit_code == 130
    assert "interrupted after 1 of 3 checks" in stopped.value.message
    assert stopped.value.next_step.endswith(f"--for {DAY}")
    assert "nowhere" in verified.capsys.readouterr().out


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.slow(reason="starts Spark as a user does, three times")
def test_a_new_project_is_verified_for_real(tmp_path):
    def command(*arguments):
        return [sys.executable, "-m", "twice", *arguments]

    def twice(*arguments):
        return subprocess.run(command(*arguments), cwd=tmp_path, capture_output=True, text=True)

    assert twice("init").returncode == 0
    module = tmp_path / "jobs" / "sales.py"
    done = twice("verify", "sales", "--for", DAY, "--check", "run-twice", "--sandbox", "kept", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    assert "1 passed, 0 failed, 0 not run" in done.stdout
    assert (tmp_path / "page.html").exists()
    assert not (tmp_path / ".twice" / "ledger.db").exists(), "production's ledger is not even created"

    # The sandbox of the first one is not in the way of the second, which is interrupted in the middle.
    child = subprocess.Popen(command("verify", "sales", "--for", DAY, "--sandbox", "kept"), cwd=tmp_path,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    for line in child.stderr:
        if line.startswith("a clean run"):
            break
    time.sleep(1)
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert f"next: twice verify sales --for {DAY} --sandbox kept" in err
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["verify-1", "verify-2"]

    # A fault is found, shrunk and saved.
    module.write_text(module.read_text().replace(
        ".agg(F.sum", '.agg(F.lit(next(CALLS)).alias("call"), F.sum'
    ) + "\nimport itertools\n\nCALLS = itertools.count()\n")  # fmt: skip
    done = twice("verify", "sales", "--for", DAY, "--check", "run-twice", "--save-case", "tests")
    assert done.returncode == 1, done.stderr
    assert "run-twice (revenue) saved as tests/test_verify_sales_run_twice.py: 8 of 8 input rows" in done.stdout
    assert Path(tmp_path / "tests" / "test_verify_sales_run_twice.py").exists()
