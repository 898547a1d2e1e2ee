"""A stream from a real broker: repeats, kill -9, restart, a lost checkpoint, a replay; `make test-kafka`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import kafka as jars
from tests.support import servers
from tests.support.processes import until
from twice import config as configuration
from twice.engine.spark.jars import fetched
from twice.ledger import open_ledger

pytestmark = [pytest.mark.full, pytest.mark.crash, pytest.mark.slow("each process starts a Spark of its own")]

PIPELINE = """
from pyspark.sql import functions as F
from twice import Day, InsertOnly, Pipeline, Table
from twice.streams import KafkaSource, Write

web = Pipeline("web", grain=Day)
clicks = KafkaSource("{servers}", "clicks", schema="event_id STRING, page STRING, happened_at TIMESTAMP",
                     options={{"maxOffsetsPerTrigger": "40"}})
fct_clicks = Table("lake.web.fct_clicks", partition=Day("d"), key=["event_id"], write=InsertOnly(on_conflict="keep"))

@web.stream(reads=clicks, writes=fct_clicks, dedup=Write("event_id", order="kafka_offset"))
def clicks(rows):
    return rows.select("event_id", "{page}", "kafka_offset", F.to_date("happened_at").alias("d"))
"""
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[pipelines]
web = "web:web"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[profiles.default]
packages = []
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.jars" = "{jars}"
"spark.sql.shuffle.partitions" = "2"
"""
ICEBERG = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.xerial:sqlite-jdbc:3.50.3.0")


class Project:
    """A project of a user who reads a topic."""

    def __init__(self, folder: Path, server: jars.KafkaServer) -> None:
        self.folder, self.server = folder, server
        names = [*map(fetched, ICEBERG), *jars.connector()]
        (folder / "twice.toml").write_text(TOML.format(jars=",".join(map(str, names))))
        self.write("page")
        self.ledger = open_ledger(configuration.load(folder / "twice.toml").ledger)

    def write(self, page: str) -> None:
        (self.folder / "web.py").write_text(PIPELINE.format(servers=self.server.servers, page=page))

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "twice", "stream", *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.folder, text=True, start_new_session=True, **pipes)

    def call(self, *words: str) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        return out

    def produce(self, first: int, end: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.server.servers})
        for number in range(first, end):
            event = {"event_id": f"e{number:04}", "page": "home", "happened_at": "2026-04-25T12:00:00Z"}
            producer.produce("clicks", key=event["event_id"], value=json.dumps(event))
        producer.flush(30)

    def rows(self) -> list[tuple[str, str]]:
        """Read the table past twice, in a Spark of its own."""
        code = (
            "import json\nfrom twice import config\nfrom twice.engine.spark import session\n"
            "rows = session.start(config.load()).table('lake.web.fct_clicks').select('event_id', 'page').collect()\n"
            "print(json.dumps([list(row) for row in rows]))"
        )
        said = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, text=True, capture_output=True, check=True
        ).stdout
        return sorted((event, page) for event, page in json.loads(said.splitlines()[-1]))

    def ended(self) -> int:
        """Count the batches that are in the table."""
        return sum(batch.ended_at is not None for batch in self.ledger.streams.batches.list("web", "clicks"))


@pytest.fixture
def project(tmp_path) -> Iterator[Project]:
    with servers.running(jars.KafkaServer) as server:
        yield Project(tmp_path, server)


def test_s38_a_topic_with_repeats_a_kill_and_a_restart(project):
    expected = [(f"e{number:04}", "home") for number in range(400)]
    # Given 200 events, half of them delivered twice
    project.produce(0, 200)
    project.produce(100, 200)
    # When the query is killed between its batches
    running = project.start("run", "web", "clicks")
    until(lambda: project.ended() >= 3)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(30)
    assert len(project.rows()) < 200
    # and restarted, while more is delivered
    project.produce(150, 400)
    done = json.loads(project.call("run", "web", "clicks", "--available-now", "--json").splitlines()[-1])
    # Then each event is one row
    assert project.rows() == expected
    assert done["status"] == "done"
    assert done["duplicates"] > 0
    # A lost checkpoint is noticed, and the stream is resumed at the offsets that the table has
    checkpoint = project.folder / ".twice" / "checkpoints" / "web.clicks"
    checkpoint.rename(checkpoint.with_name("lost"))
    project.produce(390, 410)
    refused = project.start("run", "web", "clicks", "--available-now")
    assert "is new" in refused.communicate(timeout=120)[1]
    assert refused.returncode == 3
    resumed = json.loads(
        project.call("run", "web", "--available-now", "--resume-from-table", "--json").splitlines()[-1]
    )
    assert (resumed["rows_in"], resumed["rows_out"]) == (20, 10)
    assert project.rows() == [(f"e{number:04}", "home") for number in range(410)]
    # Topics of the same names in another cluster are another source, whose offsets mean other events
    with servers.running(jars.KafkaServer) as other:
        mine, project.server = project.server, other
        project.write("page")
        project.produce(500, 600)
        elsewhere = project.start("run", "web", "clicks", "--available-now")
        said = elsewhere.communicate(timeout=120)[1]
        assert elsewhere.returncode == 3, said
        assert "has read kafka clicks of cluster" in said
        project.server = mine
        project.write("page")
    assert len(project.rows()) == 410
    # A batch of the past is read again by its offsets, and republished as the code of today makes it
    project.write("concat(page, '!') AS page")
    time.sleep(0.1)
    (project.folder / "web.py").write_text(
        (project.folder / "web.py").read_text().replace("rows.select(", "rows.selectExpr(").replace(
            'F.to_date("happened_at").alias("d")', '"to_date(happened_at) AS d"'
        )
    )  # fmt: skip
    out = json.loads(project.call("replay", "web", "clicks", "--from", "1", "--to", "2", "--json"))
    assert [(each["batch"], each["status"]) for each in out] == [(1, "published")]
    pages = [page for _, page in project.rows()]
    assert len(pages) == 410
    assert 0 < pages.count("home!") <= 40
