"""A Kafka broker of one node that tests start for themselves; `python -m tests.support.kafka` fetches its jars."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import uuid
from pathlib import Path

import pyspark

from tests.support.servers import Missing, Process, free_port

_BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
_FOLDER = Path(__file__).parents[2] / ".venv" / "kafka"


def fetch() -> None:
    """Fetch the broker's jars once, with Spark's own package resolution."""
    if any((_FOLDER / "jars").glob("*kafka_2.13*.jar")):
        return
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.jars.packages": _BROKER, "spark.jars.ivy": str(_FOLDER)}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder.getOrCreate().stop()


class KafkaServer(Process):
    """A broker that is its own controller."""

    def __init__(self) -> None:
        super().__init__("kafka")
        if not any((_FOLDER / "jars").glob("*.jar")):
            raise Missing(
                "the jars of Kafka are not here: call scripts/with-spark .venv/bin/python -m tests.support.kafka"
            )
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
