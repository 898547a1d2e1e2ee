"""The checks, one module each; the docstring of a check's class is its documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twice.errors import UsageError, did_you_mean
from twice.verify.checks.clock import Clock
from twice.verify.checks.crash import Crash
from twice.verify.checks.deterministic import Deterministic
from twice.verify.checks.double_fire import DoubleFire
from twice.verify.checks.duplicates import Duplicates
from twice.verify.checks.effects import Effects
from twice.verify.checks.empty import Empty
from twice.verify.checks.environment import Environment
from twice.verify.checks.gates import Gates
from twice.verify.checks.late import Late
from twice.verify.checks.order import Order
from twice.verify.checks.reader import Reader
from twice.verify.checks.restate import Restate
from twice.verify.checks.run_twice import RunTwice
from twice.verify.checks.schema import Schema
from twice.verify.checks.separable import Separable

if TYPE_CHECKING:
    from twice.verify.trial import Check

ALL: tuple[Check, ...] = (
    RunTwice(),
    Deterministic(),
    Clock(),
    Environment(),
    Order(),
    Separable(),
    Crash(),
    DoubleFire(),
    Reader(),
    Empty(),
    Restate(),
    Duplicates(),
    Late(),
    Schema(),
    Effects(),
    Gates(),
)


def chosen(names: Sequence[str], *, quick: bool) -> list[Check]:
    """Return the checks of those names, or the quick ones, or all."""
    known = {check.name: check for check in ALL}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no check {name!r}{did_you_mean(name, known)}",
                unchanged="nothing was run",
                next_step="twice verify --list",
            )
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    return [check for check in ALL if check.quick or not quick]
