"""Collections of Java and Scala, walked from Python; and walked in Java, where there may be many of a thing.

Every call to Java costs a round trip. What is needed from each of many files is therefore collected by a small Java
class, which Janino compiles: the compiler that Spark ships for its own code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twice.content import gateway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_of(rows: DataFrame) -> Any:
    """Return the query execution behind a DataFrame: its analysed, optimised and physical plans."""
    return gateway.java_rows(rows).queryExecution()


def items_of(found: Any) -> Iterator[Any]:
    """Iterate over a Java collection; Python's own loop ends with a Java exception, which costs twenty round trips."""
    from py4j.java_collections import JavaList

    if isinstance(found, JavaList):
        yield from (found.get(place) for place in range(len(found)))
        return
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


def compiled(session: SparkSession, like: Callable[[], Any], name: str, source: str) -> Any:
    """Return an object of a class that is compiled once for each JVM; `like` gives one of the library that it uses."""
    java = gateway.java(session)
    kept = _kept(java, name)
    if not kept:
        compiler = java.org.codehaus.janino.SimpleCompiler()
        # The loader that knows the library: its jar may have been added after Java started.
        compiler.setParentClassLoader(like().getClass().getClassLoader())
        compiler.cook(source)
        constructor = compiler.getClassLoader().loadClass(name).getConstructors()[0]
        kept.append(constructor.newInstance(java.java.util.ArrayList().toArray()))
    return kept[0]


@lru_cache(maxsize=8)
def _kept(java: Any, name: str) -> list[Any]:  # noqa: ARG001 - they are the key of what is kept
    """Return the place for a compiled class of a JVM."""
    return []
