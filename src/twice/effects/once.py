"""Guard one call anywhere: in any Python job, without a pipeline and without Spark."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from twice.effects.calls import NotSent, OutcomeUnknown, Rejected, judge, made, payload_text
from twice.effects.driving import Turn, fingerprint_of
from twice.effects.policies import SKIPPED, Policy
from twice.errors import DefinitionError, LeaseLost, ScopeHeld, TwiceError, UsageError
from twice.failpoints import fail_point
from twice.ledger import CONFIRMED, DEAD, FAILED, UNKNOWN, Ledger, Subject, Wanted, open_ledger
from twice.model.effects import OnUnknown, Retry, check_policy
from twice.model.limits import check_limits

if TYPE_CHECKING:
    from twice.ledger import EffectRecord

Function = TypeVar("Function", bound=Callable[..., Any])
_NAME = "once"


@dataclass
class Call:
    """The call of a `with once(…)` block: make it if it is `owed`, with `key` as the provider's idempotency key.

    What is assigned to `result` is stored, and is returned as `result` when the call is no longer owed.
    """

    key: str
    owed: bool
    result: Any = None


@contextmanager
def once(
    ledger: Ledger | str,
    *,
    key: str,
    payload: object = None,
    on_unknown: OnUnknown,
    on_change: Literal["keep", "resend", "fail"] = "keep",
    name: str = _NAME,
    attempts: int = 4,
    timeout: float = 30.0,
) -> Iterator[Call]:
    """Guard the call that the block makes: `if call.owed: call.result = send(call.key)`.

    A block that ends without an error has made its call. An error says that it was not made (`NotSent`, a refused
    connection, an answer such as 400), or leaves the outcome unknown, and `on_unknown` decides the next time.
    """
    guard = _Guard(ledger, key, payload, Policy(on_unknown, on_change, attempts, timeout), name)
    turn = guard.claim()
    if turn is None:
        yield Call(guard.record.key, owed=False, result=guard.answer())
        return
    with turn.held():
        if not turn.ask_first():
            yield Call(guard.record.key, owed=False, result=guard.settle(turn))
            return
        turn.begin()
        call = Call(turn.claimed.record.key, owed=True)
        try:
            yield call
        except Exception as error:
            turn.ended = judge(error)
            guard.settle(turn, quiet=True)
            raise
        except BaseException:
            guard.settle(turn, quiet=True)
            raise
        turn.ended = made(call.result)
        # What the ledger has: a successor's answer, if there is one.
        call.result = guard.settle(turn)


def guarded(
    ledger: Ledger | str,
    *,
    name: str,
    key: Callable[..., str],
    on_unknown: OnUnknown,
    on_change: Literal["keep", "resend", "fail"] = "keep",
    attempts: int = 4,
    timeout: float = 30.0,
) -> Callable[[Function], Function]:
    """Guard every call of a function: `key` makes the key from the arguments, which are the payload.

    A function that takes `idempotency_key` gets it. `name` keeps the keys of several functions apart: it stays when
    the function is renamed or moved.
    """
    if not name:
        raise DefinitionError("guarded(name=…) must be a text that stays the same when the function is renamed")

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        asks = "idempotency_key" in signature.parameters
        check_policy(name, on_unknown, None, takes_key=asks)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind_partial(*args, **kwargs)
            with once(
                ledger,
                key=key(*args, **kwargs),
                payload=dict(bound.arguments),
                on_unknown=on_unknown,
                on_change=on_change,
                name=name,
                attempts=attempts,
                timeout=timeout,
            ) as found:
                if found.owed:
                    more = {"idempotency_key": found.key} if asks else {}
                    found.result = function(*args, **kwargs, **more)
            return found.result

        return cast("Function", call)

    return decorate


class _Guard:
    """One effect without a pipeline."""

    def __init__(self, ledger: Ledger | str, key: str, payload: object, policy: Policy, name: str) -> None:
        given: object = key
        if not isinstance(given, str) or not given:
            raise UsageError(f"{name}: key={key!r} must be a text that names the call, the same in every run")
        self._what, self._policy = f"{name} {key!r}", policy
        check_policy(self._what, policy.on_unknown, None, takes_key=True)
        check_limits(self._what, attempts=policy.attempts, timeout=policy.timeout)
        if policy.on_change not in ("keep", "resend", "fail"):
            raise DefinitionError(f'{self._what}: on_change={policy.on_change!r} must be "keep", "resend" or "fail"')
        self._ledger = open_ledger(ledger) if isinstance(ledger, str) else ledger
        text = payload_text(payload)
        self._wanted = Wanted(Subject("", name, business_key=key), fingerprint_of(text), text)

    def claim(self) -> Turn | None:
        """Claim the call; None if there is nothing to do about it now."""
        (claimed,) = self._ledger.effects.claim([self._wanted], self._policy.decide, ttl=self._policy.lease)
        fail_point("effect.claimed")
        self.record, self._why = claimed.record, claimed.verdict.why
        if claimed.claim is None:
            return None
        return Turn(self._ledger, claimed, self._policy)

    def answer(self) -> Any:
        """Return the recorded answer, or raise the error of a call that is not settled."""
        taken_over = self._why == "lost" and not isinstance(self._policy.on_unknown, Retry)
        if self.record.state == CONFIRMED and self._why != "changed" and not taken_over:
            return self.record.response
        if self.record.state == UNKNOWN and self.record.note == SKIPPED:
            return None
        raise problem(self._what, self.record, self._why)

    def settle(self, turn: Turn, *, quiet: bool = False) -> Any:
        """Record how the call ended; raise if its outcome is not certain, unless an error is already being raised."""
        fail_point("effect.answered")
        settled = self._ledger.effects.settle(turn.token, [turn.outcome()])
        fail_point("effect.recorded")
        key = turn.claimed.record.key
        self.record = settled.get(key) or self._ledger.effects.generations(key)[0]
        self._why = turn.ended.kind if key in settled else "lost"
        return None if quiet else self.answer()


def problem(what: str, record: EffectRecord, why: str) -> TwiceError:
    """Build the error of an effect that is not settled."""
    look = f"twice effects show {record.key[:12]}"
    if why == "held":
        return ScopeHeld(
            f"{what}: {record.owner} is making this call",
            unchanged="this process sent nothing",
            next_step=f"run it again later; {look}",
        )
    if why == "lost":
        return LeaseLost(
            f"{what}: this process was stopped for so long that another one took the call over: a receiver without "
            "idempotency keys may have got it twice",
            unchanged="what the other process recorded",
            next_step=look,
        )
    if why == "changed":
        return Rejected(
            f'{what} was sent with another payload, and on_change="fail" does not send a changed one',
            unchanged="nothing was sent",
            next_step=f"{look}; {_send(record)} --again sends the new one",
        )
    if record.state in (FAILED, DEAD):
        tried = f" after {record.attempts} attempts" if record.attempts > 1 else ""
        kind = NotSent if why == "not_sent" and record.state == FAILED else Rejected
        return kind(
            f"{what} failed{tried}: {record.error}",
            unchanged="the receiver did nothing",
            next_step=f"correct the cause and run it again; {look}" if record.state == FAILED else _send(record),
        )
    reason = f": {record.error}" if record.error else ""
    return OutcomeUnknown(
        f"{what}: whether it was sent is not known{reason}",
        unchanged="nothing is sent again until its policy or a person decides",
        next_step=f'ask the receiver; then twice effects resolve {record.key[:12]} --sent --because "…", or --not-sent',
    )


def _send(record: EffectRecord) -> str:
    """Return the command that sends an effect whose attempts are used up."""
    if record.subject.pipeline:
        return f"twice effects send {record.subject.pipeline} --for … --effect {record.subject.effect}"
    return f'twice effects resolve {record.key[:12]} --not-sent --because "…", then run it again'
