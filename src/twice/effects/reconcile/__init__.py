"""Ways to ask whether a call was made, one file each: functions for `on_unknown=` and `Retry(then=…)`."""

from __future__ import annotations

from twice.effects.reconcile.http import http_get
from twice.effects.reconcile.sql import sql_lookup

__all__ = ["http_get", "sql_lookup"]
