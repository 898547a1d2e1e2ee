"""Effects: calls to the outside world that are owed once for a scope or a business key, however often it is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from twice.errors import DefinitionError
from twice.model.durations import Duration
from twice.model.limits import check_limits
from twice.model.rates import Rate
from twice.model.tables import Table

# What the function of an effect may ask for.
ASKED = ("rows", "window", "key", "business_key")
_CHANGES = ("keep", "resend", "fail")


class Target(Protocol):
    """A receiver: `honours_keys` is whether it takes a repeated key as the same call."""

    honours_keys: bool

    def send(self, payload: Any, *, key: str, timeout: float) -> Any:
        """Send a payload; return the answer as JSON."""


# Asks the provider about a call: called with the key and the payload, it returns the provider's answer if the call
# was made, and None if it was not. It raises if the provider gives no answer.
Reconcile = Callable[..., Any]


@dataclass(frozen=True)
class Retry:
    """Call again with the same key as long as the provider remembers it; `then` decides afterwards.

    >>> from twice import hours
    >>> Retry(valid_for=hours(24), then="ask").then
    'ask'
    """

    valid_for: Duration
    then: Literal["ask", "skip"] | Reconcile

    def __post_init__(self) -> None:
        if not isinstance(self.valid_for, Duration):
            raise DefinitionError(
                f"Retry(valid_for={self.valid_for!r}) must be a duration such as hours(24): how long the provider "
                "remembers a key"
            )
        if self.then not in ("ask", "skip") and not callable(self.then):
            raise DefinitionError(
                f'Retry(then={self.then!r}) must be "ask", "skip" or a function that asks the provider'
            )

    def __str__(self) -> str:
        return f"retry for {self.valid_for}, then {policy_text(self.then)}"


OnUnknown = Retry | Literal["ask", "skip"] | Reconcile
OnChange = Literal["keep", "resend", "fail"] | Callable[..., Any]


def policy_text(policy: object) -> str:
    """Show a policy in a contract: functions by their names."""
    return f"{getattr(policy, '__name__', type(policy).__name__)}()" if callable(policy) else str(policy)


@dataclass(frozen=True)
class Effect:
    """One declared effect of a pipeline."""

    name: str
    pipeline: str
    after: Table
    function: Callable[..., Any]
    on_unknown: OnUnknown
    on_change: OnChange = "keep"
    key: tuple[str, ...] = ()
    to: Target | None = None
    in_backfill: bool = False
    rate: Rate | None = None
    parallel: int = 4
    attempts: int = 4
    timeout: float = 30.0

    @property
    def wants(self) -> tuple[str, ...]:
        """What the function takes, by name."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def text(self) -> str:
        """The effect in words."""
        about = f"for each {', '.join(self.key)}" if self.key else "for each partition"
        to = f" to {type(self.to).__name__}" if self.to is not None else ""
        backfills = "also in backfills" if self.in_backfill else "not in backfills"
        return (
            f"{self.name}{to}, once {about}; outcome unknown: {policy_text(self.on_unknown)}; "
            f"content changed: {policy_text(self.on_change)}; {backfills}"
        )

    def __post_init__(self) -> None:
        what = f"effect {self.name}"
        if not isinstance(self.after, Table):
            raise DefinitionError(f"{what}: after= must be a Table, got {self.after!r}")
        if unknown := [name for name in self.wants if name not in ASKED]:
            raise DefinitionError(f"{what}: its function takes {', '.join(unknown)}; it can take {', '.join(ASKED)}")
        if self.to is not None and "key" in self.wants:
            raise DefinitionError(f"{what}: its function takes key, which {type(self.to).__name__} sends: leave it out")
        check_policy(what, self.on_unknown, self.to, takes_key=self.to is not None or "key" in self.wants)
        if self.on_change not in _CHANGES and not callable(self.on_change):
            allowed = '"keep", "resend", "fail" or a function'
            raise DefinitionError(f"{what}: on_change={self.on_change!r} must be {allowed}")
        check_limits(what, parallel=self.parallel, attempts=self.attempts, timeout=self.timeout)


def check_policy(what: str, on_unknown: object, to: Target | None, *, takes_key: bool) -> None:
    """Refuse a policy that could not keep its promise."""
    if on_unknown is None:
        raise DefinitionError(
            f"{what}: declare what to do when a crash leaves the outcome unknown: on_unknown="
            'Retry(valid_for=hours(24), then="ask") for a provider with idempotency keys, "skip" for at most once, '
            '"ask", or a function that asks the provider'
        )
    if not isinstance(on_unknown, Retry):
        if on_unknown not in ("skip", "ask") and not callable(on_unknown):
            raise DefinitionError(
                f'{what}: on_unknown={on_unknown!r} must be Retry(…), "skip", "ask" or a function that asks the '
                "provider"
            )
        return
    if to is not None and not to.honours_keys:
        raise DefinitionError(
            f"{what}: on_unknown=Retry(…) would send twice, because {type(to).__name__} honours no idempotency key: "
            'use "skip", "ask" or a function that asks the provider'
        )
    if not takes_key:
        raise DefinitionError(
            f"{what}: on_unknown=Retry(…) needs the provider to see the key, but the function does not take `key`: "
            "add the parameter and send it as the provider's idempotency key"
        )
