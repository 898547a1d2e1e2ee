"""What belongs to the user's project, and what a decorated object wraps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=4096)
def is_ours(file: str | None) -> bool:
    """Return whether a file belongs to the user's project: not installed, not Python's own, not twice."""
    if file is None:
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(
        path.is_relative_to(Path(root).resolve()) for root in (sys.base_prefix + "/lib", Path(__file__).parent.parent)
    )


def layers(thing: Any) -> Iterator[Any]:
    """Yield an object and what it declares to wrap: decorators, partials, Spark's user-defined functions."""
    for _ in range(20):
        yield thing
        inner = getattr(thing, "__wrapped__", None) or getattr(thing, "func", None)
        if not callable(inner) or isinstance(thing, type):
            return
        thing = inner


def unwrapped(thing: Any) -> Any:
    """Return the innermost object that another one wraps."""
    *_, innermost = layers(thing)
    return innermost
