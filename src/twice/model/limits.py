"""Limits for calls to the outside world."""

from __future__ import annotations

from twice.errors import DefinitionError

_MOST_SECONDS = 3600.0


def check_limits(what: str, *, parallel: int = 1, attempts: int = 1, timeout: float = 1.0) -> None:
    """Refuse numbers that make no sense."""
    numbers: dict[str, object] = {"parallel": parallel, "attempts": attempts}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DefinitionError(f"{what}: {name}={value!r} must be 1 or more")
    given: object = timeout
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= _MOST_SECONDS:
        raise DefinitionError(
            f"{what}: timeout={timeout!r} must be a number of seconds up to {_MOST_SECONDS:.0f}: every call needs one"
        )
