"""How many rows a DataFrame reads or returns, as far as its tables' metadata shows it: no Spark job is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from twice.content.java import items_of, query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Each returns no more rows than its input has.
_NARROWING = frozenset(
    {
        "Aggregate", "Deduplicate", "Distinct", "Filter", "GlobalLimit", "LocalLimit", "Offset", "Project",
        "RebalancePartitions", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Tail", "Window",
        "WindowGroupLimit",
    }
)  # fmt: skip
_LEFT_ONLY = ("LeftSemi", "LeftAnti")
# Inputs whose rows are counted: rows in memory, numbers, and the files of Iceberg, each with its row count.
_SCAN, _ICEBERG = "DataSourceV2ScanRelation", "org.apache.iceberg."
_COUNTED = frozenset({"LocalRelation", "Range", _SCAN})


def expected_rows(df: DataFrame) -> float | None:
    """Sum the rows that the leaves of the plan expect; None where one has no count."""
    leaves = query_of(df).optimizedPlan().collectLeaves()
    total = 0.0
    for index in range(leaves.size()):
        count = leaves.apply(index).stats().rowCount()
        if count.isEmpty():
            return None
        total += float(str(count.get()))
    return total


def most_rows(df: DataFrame) -> int | None:
    """Return a number of rows that the result cannot exceed; None if the plan does not show one."""
    plan = query_of(df).optimizedPlan()
    try:
        # One text, in the order in which the tree is walked: a call for each node would cost more.
        nodes = json.loads(str(plan.toJSON()))
        return _bound(iter(nodes), items_of(plan.collectLeaves()))
    except (Py4JError, ValueError):  # a node that Spark cannot print
        return None


def expects_at_most(df: DataFrame, most: int) -> bool:
    """Return whether Spark expects a result to fill no more than so many bytes.

    Before Spark optimises a plan it counts its tables as a whole: a result that fits then also fits afterwards.
    """
    query = query_of(df)
    return _whole_inputs_fit(query.analyzed(), most) or _bytes(query.optimizedPlan()) <= most


def _whole_inputs_fit(plan: Any, most: int) -> bool:
    """Return whether a plan fits without being optimised, where that is certain and cheap to find out."""
    try:
        if "LateralJoin" in str(plan.toString()):  # of which Spark counts the left side alone until it is optimised
            return False
        return all(map(_is_sized, items_of(plan.collectLeaves()))) and _bytes(plan) <= most
    except (Py4JError, CapturedException):  # Spark sizes some inputs only once they are optimised
        return False


def _is_sized(leaf: Any) -> bool:
    """Return whether the size of an input is known; for a table without partitions Iceberg would list every file."""
    name = str(leaf.getClass().getSimpleName())
    if name != "DataSourceV2Relation":
        return name in _COUNTED
    table = leaf.table()
    return str(table.getClass().getName()).startswith(_ICEBERG) and len(table.partitioning()) > 0


def _bytes(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))


def _bound(nodes: Iterator[dict[str, Any]], leaves: Iterator[Any]) -> int | None:
    node = next(nodes)
    below = [_bound(nodes, leaves) for _ in range(node["num-children"])]
    if not below:
        return _rows_of(_name(node), next(leaves))
    known = [rows for rows in below if rows is not None]
    return _combined(node, known) if len(known) == len(below) else None


def _combined(node: Mapping[str, Any], rows: Sequence[int]) -> int | None:
    name = _name(node)
    if name in _NARROWING:
        return max(rows[0], 1)  # an aggregate without groups makes one row of none
    if name == "Union":
        return sum(rows)
    if name == "Join":
        left_only = str(node.get("joinType", "")).strip("{}'\"$").endswith(_LEFT_ONLY)
        return rows[0] if left_only else rows[0] * rows[1] + sum(rows)
    return None


def _name(node: Mapping[str, Any]) -> str:
    return str(node["class"]).rsplit(".", 1)[-1]


def _rows_of(name: str, leaf: Any) -> int | None:
    """Return how many rows an input holds, where they are counted; of cached rows Spark has an estimate only."""
    if name == "OneRowRelation":
        return 1
    if name not in _COUNTED or (name == _SCAN and not str(leaf.scan().getClass().getName()).startswith(_ICEBERG)):
        return None
    counted = leaf.stats().rowCount()
    return int(str(counted.get())) if counted.isDefined() else None
