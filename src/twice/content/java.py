"""Collections of Java and Scala, walked from Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_collections import JavaList


def items_of(found: Any) -> Iterator[Any]:
    """Walk what Java gives; Python's own way ends with a Java exception, which costs twenty round trips."""
    if isinstance(found, JavaList):
        yield from (found.get(place) for place in range(len(found)))
        return
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
