"""Gates: checks on the staged rows of one partition, before anyone can read them.

>>> from twice import gates
>>> gates.row_count(min=1).text
'row count at least 1'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twice.errors import DefinitionError

Scalar = str | int | float | bool


@dataclass(frozen=True)
class NotNull:
    """No null in the column."""

    column: str

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"{self.column} is not null"


@dataclass(frozen=True)
class Accepted:
    """Only these values; null is not judged (add `not_null`)."""

    column: str
    values: tuple[Scalar, ...]

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"{self.column} is one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True)
class Range:
    """Values between two bounds, both included; null is not judged."""

    column: str
    min: Scalar | None = None
    max: Scalar | None = None

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"{self.column} {_bounds(self.min, self.max)}"


@dataclass(frozen=True)
class Unique:
    """No two rows of the partition agree in all these columns."""

    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"{', '.join(self.columns)} unique"


@dataclass(frozen=True)
class RowCount:
    """Row count of each partition between two bounds, both included."""

    min: int | None = None
    max: int | None = None

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"row count {_bounds(self.min, self.max)}"


@dataclass(frozen=True)
class RowCountChange:
    """Row count within ± `ratio` of what is usual for the partition.

    Usual is what the partition held at its last publish, or, for a new partition, the median of
    up to `history` published partitions before it. With fewer than three of those nothing is
    judged, and the run says so.
    """

    ratio: float
    history: int = 7

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"row count within ±{self.ratio:.0%} of the usual"


@dataclass(frozen=True)
class Sql:
    """A query over the view `staged` (one partition's rows) that must return no rows."""

    query: str

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"no rows from: {' '.join(self.query.split())}"


@dataclass(frozen=True)
class Check:
    """A function of the partition's staged DataFrame: a true result or None passes, text explains."""

    function: Callable[[Any], object]

    @property
    def text(self) -> str:
        """The gate in words."""
        return f"check {getattr(self.function, '__name__', 'function')}"


Gate = NotNull | Accepted | Range | Unique | RowCount | RowCountChange | Sql | Check


def not_null(column: str) -> Gate:
    """Require a value in every row."""
    return NotNull(column)


def unique(*columns: str) -> Gate:
    """Require that no two rows of a partition agree in these columns."""
    if not columns:
        raise DefinitionError("gates.unique needs at least one column")
    return Unique(columns)


def accepted(column: str, values: Sequence[Scalar]) -> Gate:
    """Require one of the given values."""
    if not values or isinstance(values, str):
        raise DefinitionError(f"gates.accepted({column!r}, …) needs a list of values")
    return Accepted(column, tuple(values))


def range(column: str, *, min: Scalar | None = None, max: Scalar | None = None) -> Gate:  # noqa: A001, A002 - the words users expect
    """Require values from `min` to `max`, both included."""
    if min is None and max is None:
        raise DefinitionError(f"gates.range({column!r}) needs min=, max= or both")
    return Range(column, min, max)


def row_count(*, min: int | None = None, max: int | None = None) -> Gate:  # noqa: A002 - the words users expect
    """Require a row count from `min` to `max` in each partition."""
    if min is None and max is None:
        raise DefinitionError("gates.row_count() needs min=, max= or both")
    return RowCount(min, max)


def row_count_change(ratio: float, *, history: int = 7) -> Gate:
    """Require a row count within ± `ratio` of the usual: `row_count_change(0.3)`."""
    if ratio <= 0:
        raise DefinitionError(f"gates.row_count_change({ratio}) needs a ratio above 0, such as 0.3 for ±30 %")
    return RowCountChange(ratio, history)


def sql(query: str) -> Gate:
    """Require that a query over the view `staged` returns no rows."""
    return Sql(query)


def check(function: Callable[[Any], object]) -> Gate:
    """Require that a function of the staged DataFrame finds nothing wrong."""
    return Check(function)


def _bounds(low: object, high: object) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"
