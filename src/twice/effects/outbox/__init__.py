"""Messages that are written with the rows they are about, sent by a relay, and applied once by their consumers."""

from __future__ import annotations

from twice.effects.outbox.inbox import Inbox
from twice.model.outbox import Outbox

__all__ = ["Inbox", "Outbox"]
