"""What a run reports while it runs: one event per change of state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal[
    "planned",
    "starting",
    "started",
    "waiting",
    "claimed",
    "recovered",
    "pinning",
    "computing",
    "staged",
    "gated",
    "published",
    "built",
    "unchanged",
    "fresh",
    "superseded",
    "sending",
    "retrying",
    "failed",
    "skipped",
    "same",
    "differs",
    "cannot",
    "finished",
]


@dataclass(frozen=True)
class Event:
    """One change of state of a run or of one of its steps."""

    state: State
    run: str
    pipeline: str
    scope: str
    step: str = ""
    detail: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


Listener = Callable[[Event], None]


def ignore(_: Event) -> None:
    """Listen to nothing."""
