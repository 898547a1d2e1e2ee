"""What in a step may make a difference: functions that depend on order, moment or chance, by line."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.model.steps import Step
    from twice.verify.evidence import Evidence

# Functions whose result depends on the order of rows, on the moment or on chance.
SUSPECTS = frozenset(
    {
        "collect_list",
        "collect_set",
        "first",
        "first_value",
        "last",
        "last_value",
        "any_value",
        "array_agg",
        "rand",
        "randn",
        "uuid",
        "uuid4",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "current_timestamp",
        "current_date",
        "now",
        "today",
        "row_number",
        "dropDuplicates",
        "drop_duplicates",
        "limit",
        "sample",
        "hash",
        "getenv",
        "environ",
        "udf",
        "pandas_udf",
        "mapInPandas",
        "applyInPandas",
        "time",
        "random",
        "getcwd",
    }
)


def cause_of(step: Step, evidence: Evidence | None) -> str:
    """Name what in a step may make the difference: functions that depend on order, moment or chance, by line."""
    found = suspects(step)
    kinds = {kind for each in (evidence.kinds if evidence else {}).values() for kind in each}
    parts = []
    if "float noise" in kinds:
        parts.append("sums of float or double depend on the order of rows")
    if "time-zone shift" in kinds:
        parts.append("a time is read in the machine's time zone")
    if found:
        parts.append(f"look at {', '.join(found)}")
    return "; ".join(parts) or "something in the step that is neither an input nor the window"


def suspects(step: Step) -> list[str]:
    """Return calls in a step's own code that may not give the same result twice, with their lines."""
    if step.query is not None:
        words = {word.lower() for word in step.query.replace("(", " ( ").split()}
        return sorted(name for name in SUSPECTS if name.lower() in words)
    try:
        assert step.function is not None  # noqa: S101 - a step has a function or a query
        lines, start = inspect.getsourcelines(step.function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    file = Path(inspect.getsourcefile(step.function) or "").name
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in SUSPECTS:
            found[f"{name} ({file}:{start + node.lineno - 1})"] = None  # type: ignore[attr-defined]
    return list(found)
