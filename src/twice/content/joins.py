"""The join of facts to the dimension version that was valid when they happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twice.content.rows import column
from twice.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_of_join(
    facts: DataFrame,
    versions: DataFrame,
    *,
    on: Sequence[str],
    at: str,
    valid: tuple[str, str] = ("valid_from", "valid_to"),
) -> DataFrame:
    """Left-join each fact to the version that was valid at its `at` column.

    The validity is half-open; no end means still valid. The result has the facts' columns and
    the other columns of `versions`, without the validity columns.
    """
    if isinstance(on, str) or not on:
        raise DefinitionError("as_of_join needs the key columns as a list: on=['customer_id']")
    since, until = valid
    extra = [name for name in versions.columns if name not in {*on, *valid}]
    if clash := sorted(set(extra) & set(facts.columns)):
        raise DefinitionError(f"as_of_join: both sides have the column {', '.join(clash)}; rename one")
    renamed = versions.select(
        *(column(name).alias(f"_twice_on_{i}") for i, name in enumerate(on)),
        column(since).alias("_twice_since"),
        column(until).alias("_twice_until"),
        *map(column, extra),
    )
    condition = (column("_twice_since") <= column(at)) & (
        column("_twice_until").isNull() | (column(at) < column("_twice_until"))
    )
    for i, name in enumerate(on):
        condition = condition & (column(name) == column(f"_twice_on_{i}"))
    joined = facts.join(renamed, condition, "left")
    return joined.select(*map(column, facts.columns), *map(column, extra))
