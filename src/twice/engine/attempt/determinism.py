"""The check for clocks and randomness: what a step's code and its plan must not read.

The analysed plan still holds `current_date()` and its like; after optimisation they are
literals. Spark's own `deterministic` flag is true for them, so the classes are checked.
Words such as `date'today'` are literals as soon as a text is parsed, so the text is checked: of a SQL step, and of
each expression that a Python step lets Spark parse.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twice.code.repeatability import read_code
from twice.content.calls import typed_literals
from twice.content.java import query_of
from twice.errors import NotDeterministic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.model.steps import Step

_FORBIDDEN = {
    "CurrentDate": "reads the clock",
    "CurrentTime": "reads the clock",
    "CurrentTimestamp": "reads the clock",
    "CurrentTimestampLike": "reads the clock",
    "Now": "reads the clock",
    "LocalTimestamp": "reads the clock",
    "UnixTimestampNow": "reads the clock",
    "Rand": "is random",
    "Randn": "is random",
    "RandStr": "is random",
    "Uniform": "is random",
    "Shuffle": "is random",
    "Uuid": "is random",
    "MonotonicallyIncreasingID": "depends on how rows are spread over tasks",
    "SparkPartitionID": "depends on how rows are spread over tasks",
    "InputFileName": "depends on how rows are spread over files",
    "Sample": "is random",
    "CallMethodViaReflection": "calls Java code that may return anything",
    "TryReflect": "calls Java code that may return anything",
}
# What Spark turns into the time of the query when it is cast to a date or a timestamp.
_CLOCK_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
_CLOCK_TYPES = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})


def inspect_code(step: Step) -> None:
    """Refuse a step whose own code reads what no rerun can repeat, before anything is started.

    An extract may read the environment, which holds the address of its source and the credentials for it.
    """
    if step.function is None or step.nondeterministic:
        return
    if found := read_code(step.function, environment=step.kind == "extract").found:
        raise not_deterministic(step, [(f"{each.where}: {each.text}", each.why) for each in found])


def code_facts(step: Step) -> Iterator[tuple[str, str]]:
    """Yield for the contract which code of a step cannot be read, so that a clock in it would not be found."""
    if step.function is None:
        return
    if unread := read_code(step.function, environment=step.kind == "extract").unread:
        yield "Code that is not read for clocks", f"no source for {', '.join(unread)}"


def inspect_plan(step: Step, result: DataFrame) -> None:
    """Refuse a result whose plan reads the clock, is random, or numbers rows by task."""
    found = [*forbidden(result), *clock_literals(step.query or "")]
    if found and not step.nondeterministic:
        raise not_deterministic(step, found)


def not_deterministic(step: Step, found: Iterable[tuple[str, str]], where: str = "") -> NotDeterministic:
    """Return the refusal of what was found, each with the reason."""
    listed = "; ".join(f"{text} {why}" for text, why in sorted(set(found)))
    return NotDeterministic(
        f"step {step.name}: {where + ': ' if where else ''}{listed}. A rerun would return different rows",
        unchanged="nothing was staged",
        next_step="use the run's window (take `window` as an argument, or :window_start in SQL) and key_of(…) for keys"
        '; if it is intended, give the reason: nondeterministic="…"',
    )


def forbidden(df: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the offending expressions of a plan, each with the reason."""
    plan = query_of(df).analyzed()
    # Nearly all plans are clean: to read one as a text is one call to Spark, to walk it is thousands.
    if not _is_suspicious(json.loads(str(plan.toJSON()))):
        return
    for expression in _expressions(plan):
        name = str(expression.getClass().getSimpleName())
        if name == "Sample":
            yield "sample()", _FORBIDDEN[name]
        elif name in _FORBIDDEN or (name == "Cast" and _casts_clock_word(expression)):
            yield str(expression.sql()), _FORBIDDEN.get(name, "reads the clock")


def _is_suspicious(found: object) -> bool:
    """Return whether a plan, as Spark writes it, names anything that must be checked."""
    if isinstance(found, list):
        return any(map(_is_suspicious, found))
    if not isinstance(found, dict):
        return False
    name = str(found.get("class", "")).rsplit(".", 1)[-1].rstrip("$")
    if name in _FORBIDDEN or (name == "Literal" and _is_clock_word(str(found.get("value")))):
        return True
    return any(map(_is_suspicious, found.values()))


def clock_literals(query: str) -> Iterator[tuple[str, str]]:
    """Yield the typed literals of a SQL text that Spark replaces by the time at which it parses them."""
    for kind, text in typed_literals(query):
        if kind in _CLOCK_TYPES and _is_clock_word(text):
            yield f"{kind}'{text}'", "reads the clock"


def _casts_clock_word(cast: Any) -> bool:
    child = cast.child()
    if str(child.getClass().getSimpleName()) != "Literal":
        return False
    return str(cast.dataType().typeName()) in _CLOCK_TYPES and _is_clock_word(str(child.value()))


def _is_clock_word(text: str) -> bool:
    # A zone may follow: 'now Europe/Berlin'.
    words = text.lower().split()
    return bool(words) and words[0] in _CLOCK_WORDS


def _expressions(plan: Any) -> Iterator[Any]:
    """Yield every expression of a plan, and the nodes that are random by themselves."""
    if str(plan.getClass().getSimpleName()) == "Sample":
        yield plan
    for root in _each(plan.expressions()):
        yield from _inside(root)
    for child in _each(plan.children()):
        yield from _expressions(child)
    for inner in _each(plan.innerChildren()):
        if _is_plan(inner):
            yield from _expressions(inner)


def _inside(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _each(expression.children()):
        yield from _inside(child)
    name = str(expression.getClass().getSimpleName())
    # An InSubquery has its query among its children.
    if ("Subquery" in name and name != "InSubquery") or name in {"Exists", "ListQuery"}:
        yield from _expressions(expression.plan())


def _is_plan(node: Any) -> bool:
    return "catalyst.plans" in str(node.getClass().getName())


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
