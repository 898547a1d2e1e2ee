"""A Kafka broker of one node that tests start for themselves; `python -m tests.support.kafka` fetches its jars."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyspark

from tests.support.servers import Missing, Process, free_port

_BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
_FOLDER = Path(__file__).parents[2] / ".venv" / "kafka"
# What lets Spark 4.1 read from Kafka, without what these name as their own dependencies: not all of it was published.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
_CONNECTOR_FOLDER = Path(__file__).parents[2] / ".venv" / "kafka-connector"


def fetch() -> None:
    """Fetch the jars of the broker and of Spark's connector once, with Spark's own package resolution."""
    if not any((_FOLDER / "jars").glob("*kafka_2.13*.jar")):
        _resolve(_BROKER, _FOLDER)
    for package in _CONNECTOR:
        if not _jar(package).is_file():
            others = [":".join(other.split(":")[:2]) for other in _CONNECTOR if other != package]
            _resolve(package, _CONNECTOR_FOLDER, excludes=others)


def connector() -> list[Path]:
    """Return the jars that let Spark read from Kafka."""
    if absent := [package for package in _CONNECTOR if not _jar(package).is_file()]:
        raise Missing(f"{absent[0]} is not here: call make test-kafka")
    return [_jar(package) for package in _CONNECTOR]


def _jar(package: str) -> Path:
    group, artifact, version = package.split(":")
    return _CONNECTOR_FOLDER / "jars" / f"{group}_{artifact}-{version}.jar"


def _resolve(package: str, folder: Path, excludes: Sequence[str] = ()) -> None:
    """Let a Spark of its own resolve a package: it does so only when its Java starts."""
    settings = {"spark.ui.enabled": "false", "spark.jars.packages": package, "spark.jars.ivy": str(folder)}
    if excludes:
        settings["spark.jars.excludes"] = ",".join(excludes)
    code = (
        "import json, sys\nfrom pyspark.sql import SparkSession\nbuilder = SparkSession.builder.master('local[1]')\n"
        "for name, value in json.loads(sys.argv[1]).items(): builder = builder.config(name, value)\n"
        "builder.getOrCreate().stop()\n"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(settings)], check=True)


class KafkaServer(Process):
    """A broker that is its own controller."""

    refuses_root: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("kafka")
        if not any((_FOLDER / "jars").glob("*.jar")):
            raise Missing("the jars of Kafka are not here: call make test-kafka")
        self.controller = free_port()
        self._java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}") or "java"
        scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar"))
        self._classes = f"{_FOLDER / 'jars'}/*:{scala}"

    @property
    def servers(self) -> str:
        """What a client connects to."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        settings = self.folder / "server.properties"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{self.controller}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"log.dirs={self.folder}/data\nnum.partitions=2\noffsets.topic.replication.factor=1\n"
            "offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        java = [self._java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classes]
        if not (self.folder / "data").exists():
            name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.run(*java, "kafka.tools.StorageTool", "format", "-t", name, "-c", settings)
        return [*java, "kafka.Kafka", str(settings)]

    def answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with contextlib.suppress(KafkaException):
            return bool(AdminClient({"bootstrap.servers": self.servers}).list_topics(timeout=2).brokers)
        return False


if __name__ == "__main__":
    fetch()
