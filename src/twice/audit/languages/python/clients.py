"""Objects that talk to the outside world: known by what made them, whatever they are called."""

from __future__ import annotations

import re
from functools import lru_cache

from twice.audit.languages.python.values import Instance, Value, plain
from twice.audit.model import EffectKind

_MADE_BY: tuple[tuple[EffectKind, re.Pattern[str]], ...] = (
    (
        "http",
        re.compile(
            r"^(requests|niquests|httpx|aiohttp|urllib3|curl_cffi|requests_\w+|authlib|google\.auth|cloudscraper|tls_client)\."
            r"([\w.]*\.)?(\w*[Ss]ession|Client|AsyncClient|PoolManager|create_scraper)(\.|$)"
        ),
    ),
    (
        "queue",
        re.compile(
            r"(^|\.)(\w*KafkaProducer|\w*PublisherClient|EventHubProducerClient|SerializingProducer|AvroProducer)(\.|$)"
            r"|^(confluent_kafka|kafka|pykafka|pulsar|aiokafka|faust)\.([\w.]*\.)?\w*Producer(\.|$)"
            r"|^(sns|sqs|kinesis|firehose|events)$"
        ),
    ),
    (
        "payment",
        re.compile(
            r"^braintree\.\w*Gateway(\.|$)|^stripe\.StripeClient(\.|$)|^(razorpay|square\.client|mollie\.api\.client|Adyen|gocardless_pro)\.\w+"
        ),
    ),
    (
        "mail",
        re.compile(
            r"^smtplib\.(SMTP|SMTP_SSL|LMTP)$|^aiosmtplib\.SMTP$|^yagmail\.SMTP$|(^|\.)(SendGridAPIClient|EmailClient|PostmarkClient)$|^ses(v2)?$"
        ),
    ),
    (
        "chat",
        re.compile(
            r"^slack\w*\.([\w.]*\.)?(WebClient|AsyncWebClient|WebhookClient|SlackClient|Slacker)$|^pymsteams\.\w+$|^(telegram|telebot|aiogram)\.([\w.]*\.)?\w*Bot$"
        ),
    ),
)
_SENDS: dict[EffectKind, frozenset[str]] = {
    "http": frozenset({"post", "put", "patch", "delete", "request"}),
    "queue": frozenset(
        {
            "send", "produce", "publish", "send_and_wait", "send_batch", "send_event", "send_message", "send_message_batch",
            "publish_batch", "put_record", "put_records", "put_record_batch", "put_events",
        }
    ),
    "payment": frozenset(
        {"create", "sale", "charge", "capture", "refund", "pay", "payout", "submit_for_settlement", "create_payment", "payments", "authorise"}
    ),
    "mail": frozenset(
        {"send", "sendmail", "send_message", "send_email", "send_raw_email", "send_templated_email", "send_bulk_email", "begin_send"}
    ),
    "chat": frozenset({"send", "chat_postMessage", "chat_postEphemeral", "files_upload", "files_upload_v2", "send_message", "send_dict", "send_photo", "send_document"}),
}  # fmt: skip
_MESSAGING_OF_AWS = frozenset({"sns", "sqs", "ses", "sesv2", "kinesis", "firehose", "events"})
_READS = frozenset({"get", "head", "options"})


@lru_cache(maxsize=4096)
def family(made_by: str) -> EffectKind | None:
    """Return what an object that was made by such a call is for, if it talks to the outside world.

    >>> family("requests.Session"), family("kafka.KafkaProducer"), family("pyspark.sql.SparkSession")
    ('http', 'queue', None)
    """
    return next((kind for kind, made in _MADE_BY if made.search(made_by)), None)


def sends(made_by: str, method: str) -> EffectKind | None:
    """Return the kind of effect that a method of such an object has, if it has one."""
    kind = family(made_by)
    return kind if kind is not None and method in _SENDS[kind] else None


def reads(made_by: str, method: str) -> bool:
    """Return whether a method only asks a service."""
    return method in _READS and family(made_by) == "http"


def made(dotted: str, arguments: list[Value], keywords: dict[str, Value]) -> Instance | None:
    """Return the client that a call makes, if it makes one."""
    if dotted.startswith("boto") or dotted.endswith((".client", ".resource")):
        service = plain(arguments[0] if arguments else keywords.get("service_name")) or ""
        wanted = dotted.rpartition(".")[2] in {"client", "resource"} and "boto" in dotted
        return Instance(kind=service) if wanted and service in _MESSAGING_OF_AWS else None
    last = dotted.rpartition(".")[2]
    if last[:1].isupper() or last in {"session", "create_scraper"}:
        return Instance(kind=dotted) if family(dotted) is not None else None
    return None
