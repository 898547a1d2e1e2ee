"""Drive effects: claim a batch, call what is due, record how each call ended.

The intent is in the ledger before the call, the outcome after it. A process that dies in between leaves an intent
without an owner: the next one finds an unknown outcome, and the declared policy decides.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from twice.effects.calls import Ended, call, judge, response_text
from twice.effects.policies import SKIPPED, STORED_ERROR, Policy
from twice.errors import LedgerError
from twice.failpoints import fail_point
from twice.ledger import CONFIRMED, DEAD, FAILED, UNKNOWN, Claimed, Outcome, Wanted
from twice.model.effects import Retry

if TYPE_CHECKING:
    from datetime import timedelta

    from twice.ledger import EffectRecord, Ledger

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
    """The state of an effect after it was checked: `why` it was left, or how the call ended."""

    record: EffectRecord
    why: str
    called: bool = False
    # Whether what is recorded as sent is what is wanted now.
    is_current: bool = True


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
    """Pay effects, batch by batch; yield the state of each one."""
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
    turns = {
        each.record.key: Turn(ledger, each, policy, by_subject[each.wanted.subject.id], pace)
        for each in claimed
        if each.claim is not None
    }
    settled = _take_turns(ledger, list(turns.values()), parallel)
    for each in claimed:
        turn = turns.get(each.record.key)
        if turn is None:
            yield Paid(each.record, each.verdict.why)
        elif each.record.key in settled:
            record = settled[each.record.key]
            current = record.fingerprint == each.wanted.fingerprint
            yield Paid(record, turn.ended.kind, called=turn.calls > 0, is_current=current)
        else:
            yield Paid(ledger.effects.generations(each.record.key)[0], "lost", called=turn.calls > 0)


def _take_turns(ledger: Ledger, turns: Sequence[Turn], parallel: int) -> dict[str, EffectRecord]:
    """Make the calls of a batch, and record how each ended; return what is recorded under our claim."""
    if not turns:
        return {}
    fail_point("effect.claimed")
    stopped = threading.Event()
    try:
        with turns[0].held():
            if parallel == 1 or len(turns) == 1:
                for turn in turns:
                    turn.take(stopped)
            else:
                pool = ThreadPoolExecutor(parallel, thread_name_prefix="twice-effect")
                try:
                    for done in [pool.submit(turn.take, stopped) for turn in turns]:
                        done.result()
                finally:
                    # After Ctrl-C: calls in flight end, no other one begins.
                    stopped.set()
                    pool.shutdown(wait=True, cancel_futures=True)
        fail_point("effect.answered")
    finally:
        # What was answered is recorded, and what was not begun is owed as before.
        settled = ledger.effects.settle(turns[0].token, [turn.outcome() for turn in turns])
    fail_point("effect.recorded")
    return settled


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
    # Whether an earlier call with this key may have been carried out.
    doubt: bool = False

    def __post_init__(self) -> None:
        before = self.claimed.before
        again = self.claimed.verdict.action == "call" and before is not None
        self.doubt = again and before is not None and before.state == UNKNOWN

    @property
    def token(self) -> str:
        """The claim that outcomes are written under."""
        return self.claimed.claim or ""

    def held(self) -> AbstractContextManager[None]:
        """Keep the claim alive while the block runs."""
        return _heartbeat(self.ledger, self.token, self.policy.lease)

    def ask_first(self) -> bool:
        """Ask the provider where that is the policy; return whether the call is to be made."""
        if self.claimed.verdict.action == "reconcile":
            self.ended = self._asked()
            return self.ended.kind == "not_sent"
        return True

    def begin(self) -> None:
        """Count a call: from here on it may have been made."""
        self.calls += 1
        self.ended = Ended("unknown", error="stopped before an answer")

    def take(self, stopped: threading.Event) -> None:
        """Call until it is answered, as far as policy and attempts allow."""
        if stopped.is_set() or not self.ask_first():
            return
        left, wait = max(1, self.policy.attempts - self.claimed.record.attempts + 1), _FIRST_WAIT
        while True:
            self.pace()
            # Waiting took time: the provider may have forgotten the key by now.
            if stopped.is_set() or (self.doubt and not self._may_retry()):
                return
            self.begin()
            self.ended = call(self._send)
            if self.ended.kind == "unknown" and self.policy.asks_first:
                asked = self._asked()
                if asked.kind == "made":  # "not there" may only mean: not yet
                    self.ended = asked
            self.doubt |= self.ended.kind == "unknown"
            if self.calls >= left or not self._may_repeat():
                return
            if stopped.wait(min(self.ended.wait if self.ended.wait is not None else wait, _LONGEST_WAIT)):
                return
            wait *= 2

    def outcome(self) -> Outcome:
        """Return how it ended."""
        key, ended, before = self.claimed.record.key, self.ended, self.claimed.before
        if ended.kind == "made":
            mine = self.calls > 0 and not ended.note  # not what the provider stored of an earlier call
            wanted = self.claimed.wanted if mine else None
            return Outcome(key, CONFIRMED, ended.response, note=ended.note, calls=self.calls, sent=wanted)
        if ended.kind == "key_used" and self.doubt:
            return Outcome(key, CONFIRMED, note=ended.note, calls=self.calls)
        if ended.kind == "stored_error":
            text = f"{STORED_ERROR}: {ended.error}"
            return Outcome(key, UNKNOWN, error=text, note=text[:500], calls=self.calls)
        if ended.kind == "unknown" or self.doubt or (ended.kind == "not_begun" and before and before.state == UNKNOWN):
            note = SKIPPED if self.policy.on_unknown == "skip" else ended.note
            return Outcome(key, UNKNOWN, error=ended.error, note=note, calls=self.calls)
        used_up = self.claimed.record.attempts - 1 + self.calls >= self.policy.attempts
        return Outcome(key, DEAD if used_up else FAILED, error=ended.error, calls=self.calls)

    def _send(self) -> Any:
        assert self.due is not None  # noqa: S101 - turns that are taken have one
        record = self.claimed.record
        if self.due.correct is not None and record.generation > 1:
            old = next(
                each for each in self.ledger.effects.generations(record.key) if each.generation < record.generation
            )
            if old.fingerprint != self.claimed.wanted.fingerprint:
                return self.due.correct(record.key, old.payload, old.response)
        return self.due.send(record.key)

    def _may_retry(self) -> bool:
        return self.policy.may_retry(self.claimed.record, self.ledger.clock.now())

    def _may_repeat(self) -> bool:
        if self.ended.kind == "not_sent" and not self.doubt:
            return True
        return self.ended.kind in ("unknown", "not_sent") and self._may_retry()

    def _asked(self) -> Ended:
        """Ask the provider: made, not sent, or unknown where it gives no answer."""
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
