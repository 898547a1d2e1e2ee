"""Calls to the outside world that happen once, however often a job is run."""

from __future__ import annotations

from twice.effects.calls import Answer, KeyUsed, NotSent, OutcomeUnknown, Rejected
from twice.effects.once import Call, guarded, once
from twice.effects.outbox import Inbox, Outbox
from twice.effects.reconcile import http_contains, http_get, http_head, sent_mail, sql_lookup
from twice.effects.targets import Http, Kafka, Smtp, Webhook
from twice.model.effects import Retry

__all__ = [
    "Answer",
    "Call",
    "Http",
    "Inbox",
    "Kafka",
    "KeyUsed",
    "NotSent",
    "Outbox",
    "OutcomeUnknown",
    "Rejected",
    "Retry",
    "Smtp",
    "Webhook",
    "guarded",
    "http_contains",
    "http_get",
    "http_head",
    "once",
    "sent_mail",
    "sql_lookup",
]
