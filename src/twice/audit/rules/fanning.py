"""Joins that bring several rows for one key, where that is evident from the query alone.

A join finds one row of a dimension by its key, and that is the rule. It is evident that it may find several when the
other side says which rows it keeps and the join names fewer columns, when it is the lines of what the key names, or
when it is found by a column that describes and does not identify.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from twice.audit.expressions import Expr
from twice.audit.queries import Query, Source
from twice.audit.rules.merging import leaves
from twice.audit.rules.uniqueness import kept_by, one_row_per

# What there are many of for one of that which they belong to: order_items, session_events.
_LINES = re.compile(
    r"(^|_)(items|lines|events|history|histories|logs|entries|transactions|snapshots|changes|versions|clicks"
    r"|impressions|hits|readings|measurements|movements)$|(^|_)(order|invoice|sale|sales|purchase)_details$"
)
_DESCRIBES = re.compile(r"(^|_)(status|type|category|gender|city|zip|zip_?code|postal_code|first_name|last_name)$")
# A part of a grouping that cuts what the other columns name into pieces.
_CUTS = re.compile(
    r"^(day|date|week|month|hour|year)$|_(day|week|month|hour|year|method|channel)$|^(channel|currency)$"
)
_LAYER = re.compile(r"^(stg|src|raw|int|base|dim|fct|fact|staging|source)_(\w+?__)?|^\w+?__")
_ENDS = ("id", "key", "sk", "no")
# What there is one of for each of that which it belongs to.
_ONE_EACH = re.compile(r"(^|_)(profiles?|details?|info|summary|summaries|stats|metrics|totals|attributes|settings)$")
_JOINS = frozenset({"inner", "left", "right", "full"})


@dataclass(frozen=True)
class _Join:
    """An equi-join: what is joined, and by which columns of either side."""

    source: Source
    alias: str
    name: str  # of the table under it, without layer and schema
    mine: frozenset[str]
    theirs: frozenset[str]


def fanned_out(query: Query | None, keys: Iterable[str]) -> Source | None:
    """Return the join that may repeat the key of a query's rows, if nothing keeps one of them afterwards."""
    wanted = frozenset(keys)
    for _ in range(20):
        if query is None or not wanted or query.branches or kept_by(query) is not None:
            return None
        for source in query.sources:
            join = _join(query, source) if source.how in _JOINS else None
            if join is not None and _repeats(query, join, wanted):
                return source
        first = next((source for source in query.sources if source.how == "from"), None)
        wanted = _below(query, first, wanted) if first is not None else frozenset()
        query = first.query if first is not None else None
    return None


def _below(query: Query, first: Source, keys: frozenset[str]) -> frozenset[str]:
    """Return what the keys are called in the query below; nothing if they come from elsewhere, or are computed."""
    found = set()
    for key in keys:
        column = next((one for one in query.columns if one.name == key), None)
        if column is None or (column.expr.kind == "column" and column.expr.table in {"", first.alias, first.name}):
            found.add(column.expr.name if column is not None else key)
        else:
            return frozenset()
    return frozenset(found)


def _join(query: Query, source: Source) -> _Join | None:
    """Return a join by equal columns alone; a condition or a filter on the joined rows may pick one of them."""
    alias = source.alias or source.name.rsplit(".", 1)[-1]
    mine, theirs = set(), set()
    for part in source.on.conjuncts() if source.on is not None else ():
        if part.kind != "op" or part.name != "=" or any(arg.kind != "column" for arg in part.args):
            return None
        left, right = part.args
        other, own = (left, right) if right.table == alias else (right, left)
        if own.table != alias or other.table == alias:
            return None
        mine.add(other.name)
        theirs.add(own.name)
    if not theirs or source.name.startswith("this.") or any(_picks(filter_, alias) for filter_ in query.filters):
        return None
    leaf = next(leaves(source.query), None) if source.query is not None else source
    name = leaf.name.rsplit(".", 1)[-1].lower() if leaf is not None else ""
    return _Join(source, alias, _LAYER.sub("", name), frozenset(mine), frozenset(theirs))


def _picks(filter_: Expr, alias: str) -> bool:
    """Return whether a filter may pick one of the joined rows; one that only asks for newer rows than some does not."""
    return any(
        node.kind == "column" and node.table in {alias, ""}
        for part in filter_.conjuncts()
        if part.name not in {">", ">="}
        for node in part.walk()
    )


def _repeats(query: Query, join: _Join, keys: frozenset[str]) -> bool:
    if not _is_of_others(query, join, keys):
        return False
    kept = one_row_per(join.source.query)
    if kept is not None:
        return _keeps_more(join, kept)
    if join.source.query is not None and (join.source.query.filters or join.source.query.limit is not None):
        return False  # it may pick one row of each
    own = _own_keys(join.name)
    entity = _singular(join.name.rsplit("_", 1)[-1])
    if join.theirs & own or any(entity in one.split("_") for one in join.theirs):
        return False  # by its own key, or by one that the business has for it: dim_customer by customer_code
    taken = {one.expr.name for one in query.columns if one.expr.kind == "column" and one.expr.table == join.alias}
    named = {one.expr.name for one in query.columns if one.name in keys and one.expr.kind == "column"}
    if join.mine in (keys, named):
        return bool(_LINES.search(join.name)) or (bool(taken & own) and not _ONE_EACH.search(join.name))
    return bool(taken & own) and all(_DESCRIBES.search(one) and not _names(join.name, one) for one in join.theirs)


def _is_of_others(query: Query, join: _Join, keys: frozenset[str]) -> bool:
    """Return whether several of the joined rows may have the same key."""
    for key in keys:
        column = next((one for one in query.columns if one.name == key), None)
        if column is None:
            if key not in join.mine:
                return False
            continue
        tables = {node.table for node in column.expr.walk() if node.kind == "column"}
        if not tables or join.alias in tables or ("" in tables and key not in join.mine):
            return False
    return True


def _keeps_more(join: _Join, kept: frozenset[str]) -> bool:
    """Return whether the joined rows are one per more than what they are joined by."""
    if not join.theirs < kept or join.source.query is None:
        return False
    further = kept - join.theirs
    grouped = any(query.group_by or query.grouped for query in join.source.query.walk())
    return not grouped or any(_CUTS.search(one) for one in further)


def _own_keys(name: str) -> frozenset[str]:
    """Return what a table's own key may be called."""
    whole, last = _singular(name), _singular(name.rsplit("_", 1)[-1])
    return frozenset({"id", "line_number", "line_no", *(f"{one}_{end}" for one in (whole, last) for end in _ENDS)})


def _names(table: str, column: str) -> bool:
    """Return whether a table is named after a column, or the other way round: it is its key."""
    return bool({_singular(part) for part in table.split("_")} & set(column.split("_")))


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
