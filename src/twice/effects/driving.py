"""Drive effects: claim a batch, call what is due, record how each call ended.

The intent is in the ledger before the call, the outcome after it. A process that dies in between leaves an intent
without an owner: the next one finds an unknown outcome, and the declared policy decides.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from twice.effects.calls import Ended, call, judge, response_text
from twice.effects.policies import STORED_ERROR, Policy
from twice.errors import LedgerError
from twice.failpoints import fail_point
from twice.ledger.effect_records import CONFIRMED, DEAD, FAILED, SUPPRESSED, UNKNOWN, Claimed, Outcome, Wanted
from twice.model.effects import Retry

if TYPE_CHECKING:
    from datetime import timedelta

    from twice.ledger import Ledger
    from twice.ledger.effect_records import EffectRecord

# With a key that the provider honours a batch that is lost is sent again: it may be large.
_WITH_KEYS = 100
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


@dataclass(frozen=True)
class Due:
    """An effect that may be owed: what it is about, what it would send, and how it is sent.

    `send` gets the key; `correct` gets key, old payload and old answer, and is called for a change instead.
    """

    wanted: Wanted
    send: Callable[[str], Any]
    correct: Callable[[str, Any, Any], Any] | None = None


@dataclass(frozen=True)
class Paid:
    """How an effect stands after it was looked at: `why` it was left, or how the call ended."""

    record: EffectRecord
    why: str
    called: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing is owed and nobody has to look at it."""
        return self.record.state in (CONFIRMED, SUPPRESSED) and self.why not in ("changed", "held")


def fingerprint_of(text: str) -> str:
    """Fingerprint a payload."""
    return hashlib.sha256(text.encode()).hexdigest()


def drive(
    ledger: Ledger,
    due: Iterable[Due],
    policy: Policy,
    *,
    run: str | None = None,
    parallel: int = 1,
    pace: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Paid]:
    """Pay effects, batch by batch; yield how each one stands."""
    # Where a lost call cannot be repeated, no more are at stake than run at the same time.
    size = max(_WITH_KEYS, parallel) if isinstance(policy.on_unknown, Retry) else parallel
    source = iter(due)
    while not stop() and (batch := list(islice(source, size))):
        batch = list({each.wanted.subject.id: each for each in batch}.values())
        yield from _drive_batch(ledger, batch, policy, run, parallel, pace)


def _drive_batch(
    ledger: Ledger, batch: list[Due], policy: Policy, run: str | None, parallel: int, pace: Callable[[], None]
) -> Iterator[Paid]:
    by_subject = {each.wanted.subject.id: each for each in batch}
    claimed = ledger.effects.claim([each.wanted for each in batch], policy.decide, ttl=policy.lease, run=run)
    fail_point("effect.claimed")
    yield from (Paid(each.record, each.verdict.why) for each in claimed if each.claim is None)
    mine = [each for each in claimed if each.claim is not None]
    if not mine:
        return
    turns = {each.record.key: Turn(ledger, each, policy, by_subject[each.wanted.subject.id], pace) for each in mine}
    token = mine[0].claim or ""
    try:
        with _heartbeat(ledger, token, policy.lease):
            if parallel == 1 or len(mine) == 1:
                for turn in turns.values():
                    turn.take()
            else:
                with ThreadPoolExecutor(parallel, thread_name_prefix="twice-effect") as pool:
                    for done in [pool.submit(turn.take) for turn in turns.values()]:
                        done.result()
        fail_point("effect.answered")
    finally:
        # Also after Ctrl-C: what was answered is recorded, and what was not begun is owed as before.
        settled = ledger.effects.settle(token, [turn.outcome() for turn in turns.values()])
    fail_point("effect.recorded")
    for key, turn in turns.items():
        record = settled.get(key)
        yield Paid(record or ledger.effects.find(key)[0], turn.ended.kind if record else "lost", called=turn.calls > 0)


@dataclass
class Turn:
    """One claimed effect, from the claim to its outcome."""

    ledger: Ledger
    claimed: Claimed
    policy: Policy
    due: Due | None = None
    pace: Callable[[], None] = lambda: None
    calls: int = 0
    ended: Ended = field(default_factory=lambda: Ended("not_begun", error="stopped before the call"))

    @property
    def token(self) -> str:
        """The claim that outcomes are written under."""
        return self.claimed.claim or ""

    def held(self) -> AbstractContextManager[None]:
        """Keep the claim alive while the block runs."""
        return _heartbeat(self.ledger, self.token, self.policy.lease)

    def begin(self) -> bool:
        """Ask the provider first where that is the policy; tell whether the call is to be made."""
        if self.claimed.verdict.action == "reconcile":
            self.ended = self._asked()
            if self.ended.kind != "not_sent":
                return False
        self.calls += 1
        self.ended = Ended("unknown", error="stopped before an answer")
        return True

    def take(self) -> None:
        """Call until it is answered, as far as policy and attempts allow."""
        if not self.begin():
            return
        left, wait = max(1, self.policy.attempts - self.claimed.record.attempts + 1), _FIRST_WAIT
        while True:
            self.pace()
            self.ended = call(self._send)
            if self.ended.kind == "unknown" and self.policy.asks_first:
                self.ended = self._asked()
            if self.calls >= left or not self._may_repeat():
                return
            time.sleep(min(self.ended.wait if self.ended.wait is not None else wait, _LONGEST_WAIT))
            wait *= 2
            self.calls += 1

    def outcome(self) -> Outcome:
        """Say how it ended."""
        key, ended, before = self.claimed.record.key, self.ended, self.claimed.before
        if ended.kind in ("made", "key_used"):
            return Outcome(key, CONFIRMED, ended.response, note=ended.note, calls=self.calls)
        if ended.kind in ("unknown", "stored_error"):
            note = f"{STORED_ERROR}: {ended.error}"[:500] if ended.kind == "stored_error" else ended.note
            return Outcome(key, UNKNOWN, error=ended.error, note=note, calls=self.calls)
        if ended.kind == "not_begun" and before is not None and before.state == UNKNOWN:
            return Outcome(key, UNKNOWN, error=before.error, note=before.note, calls=0)
        used_up = self.claimed.record.attempts - 1 + self.calls >= self.policy.attempts
        return Outcome(key, DEAD if used_up else FAILED, error=ended.error, calls=self.calls)

    def _send(self) -> Any:
        key, before = self.claimed.record.key, self.claimed.before
        assert self.due is not None  # noqa: S101 - turns that are taken have one
        if self.due.correct is not None and self.claimed.verdict.why == "changed" and before is not None:
            return self.due.correct(key, before.payload, before.response)
        return self.due.send(key)

    def _may_repeat(self) -> bool:
        if self.ended.kind == "not_sent":
            return True
        return self.ended.kind == "unknown" and self.policy.may_retry(self.claimed.record, self.ledger.clock.now())

    def _asked(self) -> Ended:
        """Ask the provider: made, not sent, or unknown where it does not say."""
        assert self.policy.reconcile is not None  # noqa: S101 - asked for by the policy
        try:
            found = self.policy.reconcile(self.claimed.record.key, self.claimed.record.payload)
            if found is None:
                return Ended("not_sent", error="the provider knows nothing of it")
            return Ended("made", response_text(found), note="found by asking the provider")
        except Exception as error:  # noqa: BLE001 - a provider that does not answer leaves the outcome unknown
            return Ended("unknown", error=f"the provider could not be asked: {judge(error).error}")


@contextmanager
def _heartbeat(ledger: Ledger, claim: str, lease: timedelta) -> Iterator[None]:
    """Prolong a batch's claim while calls run."""
    stopped = threading.Event()

    def beat() -> None:
        while not stopped.wait(lease.total_seconds() / 4):
            try:
                if not ledger.effects.renew(claim, lease):
                    return
            except LedgerError:
                continue  # the next beat may get through

    thread = threading.Thread(target=beat, name="twice-effect-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(timeout=5)
