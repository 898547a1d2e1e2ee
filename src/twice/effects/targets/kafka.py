"""A topic of Kafka: every message carries its id, by which consumers drop repeats."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twice.effects.calls import Answer, NotSent, OutcomeUnknown, Rejected
from twice.errors import DefinitionError

_POLL_SECONDS = 0.05
# One producer per process and cluster: connections and its threads are shared by all calls.
_producers: dict[tuple[object, ...], Any] = {}
_lock = threading.Lock()
_LOGGER = logging.getLogger("twice.kafka")
_LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Kafka:
    """A topic. The header `id` of a message is its idempotency key; its body is the payload as JSON.

    A broker drops no message because of its id: `honours_keys=True` declares that every consumer does, by `Inbox`.
    `settings` are those of librdkafka, such as the ones for TLS. The key of a row decides the partition, so that
    messages about one row stay in order.
    """

    servers: str
    topic: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    honours_keys: bool = False

    def __post_init__(self) -> None:
        for name in ("servers", "topic"):
            value: object = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise DefinitionError(f"Kafka({name}={value!r}) must be a text that is not empty")

    def send(self, payload: Any, *, key: str, timeout: float) -> Answer:
        """Send a message, and wait until all replicas in sync have it."""
        producer, ended = self._producer(timeout), _Ended()
        about = payload.get("key") if isinstance(payload, dict) else None
        try:
            producer.produce(
                self.topic,
                json.dumps(payload).encode(),
                key=json.dumps(about, sort_keys=True) if about is not None else key,
                headers=[("id", key.encode())],
                on_delivery=ended.report,
            )
        except BufferError as error:
            raise NotSent(f"the producer's queue is full: {error}") from error
        except Exception as error:  # of librdkafka: the message was not taken
            raise Rejected(f"Kafka refused the message: {error}", unchanged="nothing was sent") from error
        until = time.monotonic() + timeout
        while not ended.known.is_set():
            producer.poll(_POLL_SECONDS)
            if time.monotonic() > until:
                raise OutcomeUnknown(f"Kafka did not confirm the message within {timeout:.0f} s")
        return ended.answer()

    def _producer(self, timeout: float) -> Any:
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError:
            raise NotSent(
                "messages to Kafka need confluent-kafka, which is not installed",
                unchanged="nothing was sent",
                next_step="pip install 'twice[kafka]'",
            ) from None
        # A message that was not confirmed in time must not go out later.
        limit = max(1_000, int(timeout * 1000))
        settings = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": limit, **self.settings}
        name = (os.getpid(), self.servers, *sorted(settings.items()))
        with _lock:
            if name not in _producers:
                try:
                    _producers[name] = Producer({**settings, "bootstrap.servers": self.servers}, logger=_LOGGER)
                except KafkaException as error:
                    raise NotSent(f"Kafka's settings are refused: {error}", unchanged="nothing was sent") from error
            return _producers[name]


class _Ended:
    """What the broker reported about one message."""

    def __init__(self) -> None:
        self.known = threading.Event()
        self.error: Any = None
        self.place: dict[str, Any] = {}

    def report(self, error: Any, message: Any) -> None:
        """Take the delivery report; librdkafka calls it from `poll`."""
        self.error = error
        if error is None:
            self.place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        self.known.set()

    def answer(self) -> Answer:
        """Return where the message is stored, or raise what the error means for it."""
        if self.error is None:
            return Answer(self.place)
        # Errors of the broker about the message itself are final; a local timeout leaves it open.
        if self.error.retriable() or self.error.code() < 0:
            raise OutcomeUnknown(f"whether Kafka has the message is not known: {self.error.str()}")
        raise Rejected(f"Kafka refused the message: {self.error.str()}", unchanged="nothing was sent")
