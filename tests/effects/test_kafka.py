"""Messages to a real broker: each with its id, repeats dropped by the consumer."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support import servers
from tests.support.kafka import KafkaServer
from twice import hours
from twice.effects import Inbox, Kafka, Rejected, Retry, once
from twice.effects.calls import call
from twice.errors import DefinitionError

full = pytest.mark.full


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with servers.running(KafkaServer) as server:
        yield server


def consumed(server: KafkaServer, topic: str, count: int) -> list[tuple[str, int, object]]:
    """Read messages from the beginning: id, partition and body."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": server.servers, "group.id": "test", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        found = []
        while len(found) < count and (message := consumer.poll(20)) is not None:
            if message.error() is None:
                name = dict(message.headers())["id"].decode()
                found.append((name, message.partition(), json.loads(message.value())))
        return found


@full
def test_s36_a_message_that_was_sent_twice_is_applied_once(kafka, ledger, tmp_path):
    target = Kafka(kafka.servers, "orders", honours_keys=True)
    policy = Retry(valid_for=hours(24), then="ask")
    bodies = [{"key": {"order": number}, "total": number * 10} for number in range(20)]
    for body in bodies:
        name = str(body["key"]["order"])
        with once(ledger, key=name, payload=body, on_unknown=policy) as message:
            # The broker has it, and the sender is cut off before it knows
            target.send(body, key=message.key, timeout=20)
            message.result = target.send(body, key=message.key, timeout=20).response
        assert message.result["topic"] == "orders"
    came = consumed(kafka, "orders", 40)
    assert Counter(Counter(name for name, _, _ in came).values()) == {2: 20}
    inbox, applied = Inbox("billing"), []
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        inbox.create(database)
        for name, _, body in came:
            with database:
                if inbox.is_new(database, name):
                    applied.append(body)
    assert sorted(applied, key=lambda body: body["total"]) == bodies
    # Messages about one row share a partition, and not all messages do
    assert len({(place, body["total"]) for _, place, body in came}) == 20
    assert len({place for _, place, _ in came}) == 2


@full
def test_what_kafka_does_not_take_is_refused_and_silence_is_unknown(kafka):
    huge = {"text": "x" * 2_000_000}
    with pytest.raises(Rejected, match="refused"):
        Kafka(kafka.servers, "orders").send(huge, key="k", timeout=20)
    with pytest.raises(Rejected, match="refused"):
        Kafka(kafka.servers, "no such topic").send({}, key="k", timeout=20)
    gone = Kafka(f"127.0.0.1:{servers.free_port()}", "orders", {"message.timeout.ms": "500"})
    assert call(lambda: gone.send({}, key="k", timeout=1)).kind == "unknown"


def test_a_setting_that_kafka_does_not_know_is_nothing_that_was_sent():
    wrong = Kafka("127.0.0.1:9", "orders", {"no.such.setting": "1"})
    ended = call(lambda: wrong.send({}, key="k", timeout=1))
    assert (ended.kind, "No such configuration property" in ended.error) == ("not_sent", True)


@pytest.mark.parametrize("make", [lambda: Kafka("", "t"), lambda: Kafka("s", ""), lambda: Kafka("s", None)])
def test_bad_declarations(make):
    with pytest.raises(DefinitionError, match="must be a text"):
        make()
