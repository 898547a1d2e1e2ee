"""What is done about an effect, given what the ledger knows of it: a pure function of record, payload and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from twice.ledger import CONFIRMED, DEAD, FAILED, UNKNOWN, EffectRecord, Verdict, Wanted
from twice.model.effects import OnChange, OnUnknown, Reconcile, Retry

# `normal`: pay what is owed. `send`: also what was suppressed or is dead. `again`: send once more what was sent.
Mode = Literal["normal", "send", "again"]


@dataclass(frozen=True)
class Policy:
    """How an effect is guarded."""

    on_unknown: OnUnknown
    on_change: OnChange = "keep"
    attempts: int = 4
    timeout: float = 30.0
    mode: Mode = "normal"

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts without a heartbeat: longer than any call."""
        return timedelta(seconds=self.timeout + 60)

    @property
    def reconcile(self) -> Reconcile | None:
        """The function that asks the provider, if there is one."""
        asked = self.on_unknown.then if isinstance(self.on_unknown, Retry) else self.on_unknown
        return asked if callable(asked) else None

    @property
    def asks_first(self) -> bool:
        """Whether an unknown outcome is settled by asking, and not by calling again."""
        return self.reconcile is not None and not isinstance(self.on_unknown, Retry)

    def may_retry(self, record: EffectRecord, now: datetime) -> bool:
        """Return whether the provider still remembers the key when a call that starts now is answered."""
        if not isinstance(self.on_unknown, Retry) or record.called_at is None:
            return isinstance(self.on_unknown, Retry)
        until = record.called_at + _exact(self.on_unknown)
        return now + timedelta(seconds=self.timeout) <= until

    def decide(self, record: EffectRecord | None, wanted: Wanted, now: datetime) -> Verdict:
        """Decide about one effect; the ledger records the verdict."""
        if record is None:
            return Verdict("call", "new")
        if record.is_held:
            return Verdict("leave", "held")
        if record.state == CONFIRMED:
            return self._sent(record, wanted)
        if record.state == UNKNOWN:
            return self._unknown(record, now)
        return self._not_sent(record, wanted)

    def _sent(self, record: EffectRecord, wanted: Wanted) -> Verdict:
        if self.mode == "again":
            return Verdict("resend", "again")
        if record.fingerprint == wanted.fingerprint or not record.fingerprint:
            return Verdict("leave", "confirmed", {"outdated": ""} if record.outdated else {})
        if self.on_change in ("keep", "fail"):
            why = "outdated" if self.on_change == "keep" else "changed"
            same = record.outdated == wanted.fingerprint
            return Verdict("leave", why, {} if same else {"outdated": wanted.fingerprint})
        return Verdict("resend", "changed")

    def _not_sent(self, record: EffectRecord, wanted: Wanted) -> Verdict:
        """It failed, was suppressed, or its attempts are used up."""
        if self.mode == "again" or record.error.startswith(STORED_ERROR):
            return Verdict("resend", "again")  # under the old key the provider would answer as before
        asked = self.mode != "normal"
        if not asked and (record.state != FAILED or record.attempts >= self.attempts):
            left = record.state if record.state != FAILED else DEAD
            return Verdict("leave", left, {} if left == record.state else {"state": left})
        start = {"fingerprint": wanted.fingerprint, "payload": wanted.payload, "outdated": ""}
        return Verdict("call", f"was {record.state}", start | ({"attempts": 1} if asked else {}))

    def _unknown(self, record: EffectRecord, now: datetime) -> Verdict:
        # What was sent, if it was, is the earlier payload: it stays, and a later one counts as a change.
        if self.may_retry(record, now) and not record.error.startswith(STORED_ERROR):
            return Verdict("call", "unknown")
        if self.reconcile is not None:
            return Verdict("reconcile", "unknown")
        then = self.on_unknown.then if isinstance(self.on_unknown, Retry) else self.on_unknown
        note = SKIPPED if then == "skip" else ASKED
        return Verdict("leave", str(then), {} if record.note == note else {"note": note, "state": UNKNOWN})


STORED_ERROR = "the provider replays a stored error"
SKIPPED = 'not sent again: on_unknown="skip"'
ASKED = "whether it was sent is not known"


def _exact(retry: Retry) -> timedelta:
    return timedelta(days=retry.valid_for.days) + retry.valid_for.exact
