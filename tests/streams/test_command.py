"""`twice stream` as a user runs it: Ctrl-C, an error, a second process; each with a Spark of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.streams.clicks import SCHEMA, click
from tests.support.processes import until
from twice.ledger import open_ledger

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.slow("each command starts a Spark of its own")]

TOML = """
[pipelines]
web = "web:web"
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
[stores.landing]
type = "files"
path = "landing"
format = "json"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = "1"
"""
CODE = f"""
from pyspark.sql import functions as F
from twice import Day, InsertOnly, Pipeline, Table
from twice.streams import Write

web = Pipeline("web", grain=Day)
table = Table("lake.web.clicks", partition=Day("d"), key=["event_id"], write=InsertOnly(on_conflict="keep"))

@web.stream(reads=Table("landing.web.clicks", schema="{SCHEMA}"), writes=table, dedup=Write("event_id"))
def clicks(rows):
    return rows.withColumn("d", F.to_date("happened_at"))
"""


class Project:
    """A project of a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "twice.toml").write_text(TOML)
        (folder / "web.py").write_text(CODE)
        (folder / "landing" / "web" / "clicks").mkdir(parents=True)
        self.deliver("1", click(1), click(1))

    def deliver(self, name: str, *events: dict[str, Any]) -> None:
        file = self.folder / "landing" / "web" / "clicks" / f"{name}.json"
        file.write_text("".join(f"{json.dumps(event)}\n" for event in events))

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-m", "twice", "stream", *words]
        return subprocess.Popen(command, cwd=self.folder, text=True, **pipes)

    def ended(self) -> int:
        """Count the batches that are in the table."""
        if not (self.folder / "ledger.db").exists():
            return 0
        found = open_ledger(f"sqlite:///{self.folder}/ledger.db").streams.batches.list("web", "clicks")
        return sum(batch.ended_at is not None for batch in found)


def test_ctrl_c_ends_a_stream_after_its_batch_and_an_error_is_one_sentence(tmp_path):
    project = Project(tmp_path)
    running = project.start("run", "web", "clicks")
    until(lambda: project.ended() == 1)
    # A second process is refused while it runs
    second = project.start("run", "web")
    _, err = second.communicate(timeout=120)
    assert (second.returncode, "the stream web.clicks is already running" in err) == (4, True), err
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "the stream web.clicks was stopped after batch 0" in err
    assert "next: twice stream run web clicks" in err
    assert "batch 0 published: 2 in, 1 out, 1 duplicate, 0 late" in err
    assert "Traceback" not in err
    # A batch that cannot be published: what is wrong with it, and nothing of Java
    project.deliver("2", {**click(2), "event_id": None})
    failed = project.start("run", "web", "--available-now")
    _, err = failed.communicate(timeout=120)
    assert failed.returncode == 3
    assert "null in the business key" in err
    assert "Traceback" not in err
    assert "\tat " not in err
    # It runs until it is asked to stop
    project.deliver("2", click(2), click(1))
    running = project.start("run", "web", "--json")
    until(lambda: project.ended() == 2)
    stopped = project.start("stop", "web", "--wait", "60")
    assert stopped.communicate(timeout=90)[0] == "web.clicks has ended: stopped\n"
    lines = [json.loads(line) for line in running.communicate(timeout=60)[0].splitlines()]
    assert [(line["batch"], line["rows_out"]) for line in lines[:-1]] == [(1, 1)]
    assert (lines[-1]["status"], running.returncode) == ("stopped", 0)
