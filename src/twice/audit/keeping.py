"""Compute an attribute when it is first asked for, and keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Kept = TypeVar("Kept")


class kept(Generic[Owner, Kept]):  # noqa: N801 - a decorator
    """Like `functools.cached_property`, without the lock that it takes before Python 3.12."""

    def __init__(self, compute: Callable[[Owner], Kept]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> kept[Owner, Kept]: ...

    @overload
    def __get__(self, instance: Owner, owner: type[Any]) -> Kept: ...

    def __get__(self, instance: Owner | None, owner: type[Any]) -> Kept | kept[Owner, Kept]:
        """Compute the value; later the instance answers by itself."""
        if instance is None:
            return self
        found = self.compute(instance)
        # Not through `__dict__`: to ask for it makes a dictionary, and all attributes are slower from then on.
        object.__setattr__(instance, self.compute.__name__, found)
        return found
