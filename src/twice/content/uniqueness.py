"""What a plan proves about keys: a result that is grouped by the key holds each key once.

Spark derives this itself, through projections, filters and semi joins, for its own optimiser. It
holds for every execution, so rows that were staged exactly as computed need not be counted again.
A cast, an outer join or a union ends the proof, and the staged keys are counted.

A surrogate made by `key_of` stands for the columns that it is made of: it writes every value down in
full and hashes that to 128 bits, so two of a trillion keys collide by chance once in 10^14 such tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twice.content.java import items_of, query_of
from twice.content.keys import key_of
from twice.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def proves_unique(df: DataFrame, names: Sequence[str]) -> bool:
    """Return whether no two rows of the result can agree in all of these columns, by its plan."""
    query = query_of(df)
    known, keys = _known_and_keys(query.analyzed(), names)
    if any(key <= known for key in keys):  # then nothing need be optimised to know
        return True
    plan = query.optimizedPlan()
    known, keys = _known_and_keys(plan, names)
    if any(key <= known for key in keys):
        return True
    return bool(keys) and any(key <= known | _behind(df, plan, known) for key in keys)


def _known_and_keys(plan: Any, names: Sequence[str]) -> tuple[set[str], list[set[str]]]:
    """Return the ids of the named columns, and the sets of columns in which no two rows of a plan agree."""
    known = {_id(each) for each in items_of(plan.output()) if each.name() in names}
    return known, [{_id(each) for each in items_of(key)} for key in items_of(plan.distinctKeys())]


def _behind(df: DataFrame, plan: Any, known: set[str]) -> set[str]:
    """Return the columns that surrogate keys among the known ones are made of."""
    output = {_id(each): str(each.name()) for each in items_of(plan.output())}
    found: set[str] = set()
    for made in items_of(plan.expressions()):
        if made.getClass().getSimpleName() == "Alias" and str(made.exprId()) in known:
            made_of = _in_order(made.child(), output)
            if made_of and _is_surrogate(df, made.child(), [output[each] for each in made_of]):
                found.update(made_of)
    return found


def _in_order(expression: Any, output: dict[str, str]) -> list[str]:
    """Return the columns of an expression as they come in its text; none if one of them is not in the result."""
    ids = {_id(each): str(each) for each in items_of(expression.references())}
    text = str(expression)
    return sorted(ids, key=lambda each: text.find(ids[each])) if set(ids) <= set(output) else []


def _is_surrogate(df: DataFrame, expression: Any, names: list[str]) -> bool:
    """Compare an expression with the surrogate key of these columns, as Spark optimises both."""
    distinct = {name.casefold() for name in df.columns}
    if expression.getClass().getSimpleName() != "Substring" or len(distinct) < len(df.columns):
        return False
    key = key_of(*(name if name.isidentifier() else quote(name) for name in names))
    probe = query_of(df.select(key.alias("k"))).optimizedPlan()
    return any(
        each.getClass().getSimpleName() == "Alias" and each.child().semanticEquals(expression)
        for each in items_of(probe.expressions())
    )


def _id(found: Any) -> str:
    """Return the stable id of a column; an expression is not a column of the result, and proves nothing about one."""
    return str(found.exprId()) if found.getClass().getSimpleName() == "AttributeReference" else ""
