"""The wall-clock guard: what a step's plan must not ask.

The analysed plan still holds `current_date()` and its like; after optimisation they are
literals. Spark's own `deterministic` flag is true for them, so the classes are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
}


def inspect_plan(step: Step, result: DataFrame) -> None:
    """Refuse a result whose plan reads the clock, is random, or numbers rows by task."""
    found = sorted(set(forbidden(result)))
    if not found or step.nondeterministic:
        return
    listed = "; ".join(f"{text} {why}" for text, why in found)
    raise NotDeterministic(
        f"step {step.name}: {listed}. A rerun would give other rows",
        safe="nothing was staged",
        to_go_on="use the run's window (take `window` as an argument, or :window_start in SQL) and key_of(…) for keys; "
        'if it must stay, say why: nondeterministic="…"',
    )


def forbidden(df: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the offending expressions of a plan, each with what is wrong about it."""
    for expression in _expressions(df._jdf.queryExecution().analyzed()):
        name = str(expression.getClass().getSimpleName())
        if name in _FORBIDDEN:
            yield str(expression.sql()), _FORBIDDEN[name]


def _expressions(plan: Any) -> Iterator[Any]:
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
    if "Subquery" in name or name in {"Exists", "ListQuery"}:
        yield from _expressions(expression.plan())


def _is_plan(node: Any) -> bool:
    return "catalyst.plans" in str(node.getClass().getName())


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
