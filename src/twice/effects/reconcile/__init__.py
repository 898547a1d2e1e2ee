"""Ways to ask whether a call was made, one file each: functions for `on_unknown=` and `Retry(then=…)`."""

from __future__ import annotations

from twice.effects.reconcile.http import http_contains, http_get, http_head
from twice.effects.reconcile.mail import sent_mail
from twice.effects.reconcile.sql import sql_lookup

__all__ = ["http_contains", "http_get", "http_head", "sent_mail", "sql_lookup"]
