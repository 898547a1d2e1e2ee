"""Requests, mails, messages, payments: what the world outside notices."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from twice.audit.languages.python import clients
from twice.audit.languages.python.purposes import purpose_of
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Origins,
    Value,
    alternatives,
    origins_of,
    plain,
    shown,
)
from twice.audit.model import Effect, EffectKind

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_HTTP = re.compile(
    r"(^|\.)(requests|httpx|session|client|http|aiohttp|s|sess|http_client|api|urllib3|pool|_session|_client|api_client|rest_client)\.(post|put|patch|delete|request)$",
    re.IGNORECASE,
)
_LONGEST_NAME = 60
_CHOOSES = frozenset({"parameter", "clock", "watermark", "random"})
_SERVICE = re.compile(r"\.client\(\s*(?:service_name\s*=\s*)?[\"'](sns|sqs|ses|sesv2|kinesis|firehose|events)[\"']")
_MAIL = re.compile(
    r"(sendmail|send_message|send_email|send_mail|send_raw_email|send_templated_email|SendGridAPIClient\b.*\.send|EmailMessage\.send|yag\.send|mail\.send|sg\.send|notify_email|send_html_email)$"
)
_CHAT = re.compile(
    r"chat_postMessage|chat_post_message|SlackWebhook|slack\w*\.(send|post|notify|send_message|post_message)|WebhookClient\b.*\.send$|files_upload|teams\w*\.(send|post)|pymsteams|hipchat|telegram\w*\.send_message|discord\w*\.send|send_slack|slack_notify|notify_slack|post_to_slack|send_teams|webhook\.send$",
    re.IGNORECASE,
)
# Libraries of messengers, and what sends with them.
_MESSENGERS = re.compile(
    r"(^|\.)(vk_api|skpy|telegram|telebot|aiogram|telethon|pyrogram|discord\w*|slack\w*|pymsteams|mattermost\w*|linebot|viberbot"
    r"|matrix_client|webexteamssdk|zulip|rocketchat\w*|dingtalk\w*|pywhatkit)(\.|$)",
    re.IGNORECASE,
)
_NOTIFIES = re.compile(
    r"(^|\.|_)(send_?(message|msg|photo|document|text|file|media_group|notification)?|messages\.(send|create)|post_?message|push_?message"
    r"|broadcast|files_upload(_v2)?)$",
    re.IGNORECASE,
)
_NOTIFIES_BY_GET = re.compile(r"api\.telegram\.org.*send[A-Z]\w+|/send(Message|Document|Photo)\b")
_MAIL_OBJECT = re.compile(r"mail|smtp|server", re.IGNORECASE)
_QUEUE = re.compile(
    r"(producer|kafka_producer|_producer|publisher|sns|sqs|queue|channel|topic|pubsub|kinesis|eventbridge|events|broker|mq|rabbit|event_hub\w*|sender|firehose|redis\w*|nats\w*|bus)\w*\.(send|produce|publish|send_message|send_messages|send_message_batch|publish_batch|basic_publish|put_record|put_records|put_events|send_batch|xadd|put|put_record_batch|lpush|rpush|enqueue|apply_async)$",
    re.IGNORECASE,
)
_PRODUCERS = re.compile(
    r"(producer|publisher|kafka|rabbit|sns|sqs|kinesis|eventbridge|pubsub|firehose|event_hub)\w*\.", re.IGNORECASE
)
_MESSAGING = re.compile(
    r"kafka|boto|pika|pubsub|servicebus|eventhub|redis|nats|celery|stomp|kombu|rabbit|pulsar|aiormq|zmq", re.IGNORECASE
)
_PUBLISHING = frozenset(
    {
        "produce",
        "lpush",
        "rpush",
        "xadd",
        "basic_publish",
        "put_events",
        "put_record",
        "put_records",
        "publish_batch",
        "send_message_batch",
    }
)
_PAYMENT = re.compile(
    r"stripe\.(\w+\.)*(create|capture|confirm|refund|create_payout|pay)$|(paypal\w*|braintree|adyen|square|razorpay|mollie|checkout|gateway|payment\w*|charges?|payouts?|refunds?|transfers?)\.(\w+\.)*(create|sale|charge|capture|refund|pay|payout|submit_for_settlement|create_payment|authorize)$",
    re.IGNORECASE,
)
_KEY_WORDS = re.compile(
    r"idempot|x-request-id|dedup|transaction_?id|request_?id|client_?token|message_?id|\bkey\b|ordering_key|partition_?key|MessageDeduplicationId|external_?id|correlation",
    re.IGNORECASE,
)


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Functions of libraries that have an effect."""
    if dotted == "urllib.request.Request":
        method = (
            plain(keywords.get("method")) or ("POST" if "data" in keywords or len(arguments) > 1 else "GET")
        ).upper()
        if method != "GET":
            return _note(
                interp,
                "http",
                dotted,
                arguments,
                keywords,
                node,
                method=method,
                url=shown(arguments[0] if arguments else None),
            )
    if dotted in {"requests.get", "httpx.get", "urllib.request.urlopen", "requests.Session.get", "requests.head"}:
        if dotted == "urllib.request.urlopen" and ("data" in keywords or len(arguments) > 1):
            return _note(interp, "http", dotted, arguments, keywords, node, method="POST")
        given: Origins = frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value))
        if _NOTIFIES_BY_GET.search(" ".join(shown(value) for value in (*arguments, *keywords.values()))):
            return _note(interp, "chat", dotted, arguments, keywords, node, method="GET")
        for kind in ("clock", "watermark"):
            asked = frozenset(one for one in given if one.kind == kind)
            interp.use(asked, "input", node, detail=dotted if kind == "clock" else "")
        # What comes back was chosen by these values; it does not hold them.
        return Value(origins=frozenset(one for one in given if one.kind not in _CHOOSES), name=dotted)
    return unknown(interp, dotted, dotted.rpartition(".")[2], arguments, keywords, node)


def unknown(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Anything whose name says that it has an effect."""
    made = clients.made(full, arguments, keywords)
    if made is not None:
        return made
    full = _of_service(interp, full, last, node)
    base = full.rpartition(".")[0]
    if clients.reads(base, last):
        return function(interp, "requests.get", arguments, keywords, node)
    known = clients.sends(base, last)
    kinds = frozenset({known}) if known is not None else _kinds(full)
    if "payment" in kinds:
        return _note(interp, "payment", full, arguments, keywords, node)
    if ("chat" in kinds and last != "load") or (
        full.endswith("messages.create") and any("twilio" in one for one in interp.job.imports)
    ):
        return _note(interp, "chat", full, arguments, keywords, node)
    if "notifies" in kinds and _by_messenger(interp.job.imports):
        return _note(interp, "chat", full, arguments, keywords, node)
    if "mail" in kinds and _PRODUCERS.search(full):  # kafka.send_message
        return _note(interp, "queue", full, arguments, keywords, node)
    if "mail" in kinds and "queue" not in kinds:
        return _note(interp, "mail", full, arguments, keywords, node)
    if "http" in kinds:
        method = last.upper()
        if last == "request":
            method = (plain(arguments[0]) if arguments else plain(keywords.get("method"))) or ""
            method = method.upper()
            if method in {"GET", "HEAD", "OPTIONS"}:
                return None
        if last == "delete":
            return Value(name=full)
        url = shown(
            keywords.get("url")
            or (arguments[1] if last == "request" and len(arguments) > 1 else arguments[0] if arguments else None)
        )
        kind: EffectKind = (
            "chat"
            if re.search(
                r"hooks\.slack|slack\.com|webhook\.office|discord|slack|teams_?webhook|chat\.googleapis|api\.telegram|telegram"
                r"|api\.vk\.com|mattermost|dingtalk|feishu|larksuite|oapi\.|line\.me",
                url,
                re.IGNORECASE,
            )
            else "http"
        )
        return _note(interp, kind, full, arguments, keywords, node, method=method, url=url)
    messaging = _sends_messages(interp.job.imports)
    if ("queue" in kinds and (known or messaging or _PRODUCERS.search(full))) or (messaging and last in _PUBLISHING):
        return _note(interp, "queue", full, arguments, keywords, node)
    return None


@lru_cache(maxsize=4096)
def _kinds(full: str) -> frozenset[str]:
    """Return what a name looks like; the same few names are called again and again."""
    looks = (("payment", _PAYMENT), ("chat", _CHAT), ("mail", _MAIL), ("http", _HTTP), ("queue", _QUEUE))
    found = frozenset(kind for kind, pattern in looks if pattern.search(full))
    other = "http" in found or _MAIL_OBJECT.search(full) or _PRODUCERS.search(full)
    return found | {"notifies"} if not other and _NOTIFIES.search(full) else found


@lru_cache(maxsize=256)
def _by_messenger(imports: frozenset[str]) -> bool:
    return any(_MESSENGERS.search(one) for one in imports)


@lru_cache(maxsize=256)
def _sends_messages(imports: frozenset[str]) -> bool:
    return any(_MESSAGING.search(one) for one in imports)


def _of_service(interp: Interpreter, full: str, last: str, node: ast.Call) -> str:
    """Name a client of AWS by its service: boto3.client("sqs").send_message is sqs.send_message, and no mail."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if owner is None or not any(one.startswith("boto") for one in interp.job.imports):
        return full
    source = interp.source(owner)
    made = (
        re.search(rf"(?<![\w.]){re.escape(source)}\s*=[^=].*", interp.job.text) if len(source) < _LONGEST_NAME else None
    )
    found = _SERVICE.search(made[0] if made else source)
    return f"{found[1]}.{last}" if found else full


def _note(
    interp: Interpreter,
    kind: EffectKind,
    name: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    *,
    method: str = "",
    url: str = "",
) -> Value:
    given: Origins = frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value))
    context: Literal["mail", "request"] = "mail" if kind in {"mail", "chat"} else "request"
    interp.use(given, context, node)
    if interp.quiet:
        return Value()
    words = [word for word, value in keywords.items() if not (isinstance(value, Const) and value.value is None)]
    headers = keywords.get("headers") or keywords.get("MessageAttributes")
    for one in alternatives(headers):
        if isinstance(one, Entries):
            words.extend(one.items)
            words.extend(shown(value) for key, value in one.items.items() if key.lower() == "prefer")
    source = interp.source(node)
    spreads = "put_record" in name  # the PartitionKey of Kinesis only chooses a shard
    has_key = any(_KEY_WORDS.search(word) for word in words if not (spreads and word == "PartitionKey"))
    if kind == "queue" and re.search(r"produce|send$|xadd", name) and len(arguments) > 2:
        has_key = True
    if kind in {"http", "payment"} and re.search(r"idempot", source, re.IGNORECASE):
        has_key = True
    if kind == "http" and method == "PUT" and "{" in url:
        has_key = True
    around = interp.around()
    effect = Effect(
        kind, name, interp.place(node), method=method, url=url, arguments=tuple(words), has_key=has_key,
        guarded_by=around.guarded_by, purpose=purpose_of(interp, kind, url, keywords, node), inside=_inside(interp),
        function=around.function, task=around.task, loop=around.loop, order=len(interp.job.writes),
    )  # fmt: skip
    _keep(interp, effect)
    return Value(origins=frozenset(one for one in given if one.kind != "parameter"), name=name)


def _keep(interp: Interpreter, effect: Effect) -> None:
    """Add an effect, or what is new about one that was met before: a function may run alone and inside a map."""
    for index, known in enumerate(interp.job.effects):
        if known.place == effect.place and known.name == effect.name:
            if effect.inside and not known.inside:
                interp.job.effects[index] = effect
            return
    interp.job.effects.append(effect)


def _inside(interp: Interpreter) -> str:
    """Return the Spark operation that runs the code: foreachPartition, map, or a UDF by its decorator."""
    if interp.state.inside:
        return interp.state.inside.split(" ")[0]
    current = interp.state.functions[-1] if interp.state.functions else ""
    for function in interp.functions:
        if getattr(function.node, "name", "") == current and any("udf" in one.lower() for one in function.decorators):
            return "udf"
    return ""


def operator(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call, task: str) -> None:
    """Operators that have an effect: EmailOperator, SlackWebhookOperator, SimpleHttpOperator."""
    kind: EffectKind
    method = ""
    if "Email" in name:
        kind = "mail"
    elif "Slack" in name or "Teams" in name or "Discord" in name or "Telegram" in name:
        kind = "chat"
    elif "Http" in name and "Sensor" not in name:
        kind = "http"
        method = (plain(keywords.get("method")) or "POST").upper()
        if method == "GET":
            return
    elif re.search(r"(Sns|Sqs|PubSub|Kafka|Kinesis)\w*Operator$", name) and re.search(r"Publish|Produce|Send", name):
        kind = "queue"
    else:
        return
    before, interp.state.task = interp.state.task, task
    on_failure = plain(keywords.get("trigger_rule")) or shown(keywords.get("trigger_rule"))
    _note(interp, kind, name, [], keywords, node, method=method, url=shown(keywords.get("endpoint")))
    if "failed" in on_failure.lower() and interp.job.effects:
        from dataclasses import replace

        interp.job.effects[-1] = replace(interp.job.effects[-1], purpose="alert")
    interp.state.task = before
