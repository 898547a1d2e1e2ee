"""Gates: checks on the staged rows of one partition, before readers can see them.

>>> from twice import gates
>>> gates.row_count(min=1).text
'row count at least 1'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twice.errors import DefinitionError
from twice.model.names import check_identifier

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
    judged, and the run reports it.
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
    return NotNull(_column(column, "not_null"))


def unique(*columns: str) -> Gate:
    """Require that no two rows of a partition agree in these columns."""
    if not columns:
        raise DefinitionError('gates.unique needs at least one column: gates.unique("order_id")')
    return Unique(tuple(_column(column, "unique") for column in columns))


def accepted(column: str, values: Sequence[Scalar]) -> Gate:
    """Require one of the given values."""
    if not values or isinstance(values, str) or not isinstance(values, Iterable):
        raise DefinitionError(f'gates.accepted({column!r}, …) needs a list of values: ["new", "paid"]')
    if any(value is None for value in values):
        raise DefinitionError(
            f"gates.accepted({column!r}, …) does not judge nulls: leave None out of the values; "
            f"gates.not_null({column!r}) refuses nulls"
        )
    return Accepted(_column(column, "accepted"), tuple(values))


def range(column: str, *, min: Scalar | None = None, max: Scalar | None = None) -> Gate:  # noqa: A001, A002 - the words users expect
    """Require values from `min` to `max`, both included."""
    if min is None and max is None:
        raise DefinitionError(f"gates.range({column!r}) needs min=, max= or both")
    _ordered(f"gates.range({column!r})", min, max)
    return Range(_column(column, "range"), min, max)


def row_count(*, min: int | None = None, max: int | None = None) -> Gate:  # noqa: A002 - the words users expect
    """Require a row count from `min` to `max` in each partition."""
    if min is None and max is None:
        raise DefinitionError("gates.row_count() needs min=, max= or both")
    for bound in (min, max):
        if bound is not None and not _whole(bound, 0):
            raise DefinitionError(f"gates.row_count: a bound must be a number of rows, 0 or more, got {bound!r}")
    _ordered("gates.row_count()", min, max)
    return RowCount(min, max)


def row_count_change(ratio: float, *, history: int = 7) -> Gate:
    """Require a row count within ± `ratio` of the usual: `row_count_change(0.3)`."""
    if isinstance(ratio, bool | str) or not 0 < ratio <= 10:
        raise DefinitionError(
            f"gates.row_count_change({ratio!r}) needs a ratio above 0 and up to 10, such as 0.3 for ±30 %"
        )
    if not _whole(history, 3):
        raise DefinitionError(
            f"gates.row_count_change(…, history={history!r}): give 3 partitions or more, with fewer nothing is judged"
        )
    return RowCountChange(ratio, history)


def sql(query: str) -> Gate:
    """Require that a query over the view `staged` returns no rows."""
    if not str(query or "").strip():
        raise DefinitionError('gates.sql needs a query: gates.sql("select * from staged where amount < 0")')
    return Sql(query)


def check(function: Callable[[Any], object]) -> Gate:
    """Require that a function of the staged DataFrame finds nothing wrong."""
    if not callable(function):
        raise DefinitionError(f"gates.check({function!r}) needs a function of the staged DataFrame")
    return Check(function)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _column(column: Any, gate: str) -> str:
    if isinstance(column, list | tuple):
        names = ", ".join(f'"{name}"' for name in column)
        advice = f"write gates.unique({names})" if gate == "unique" else "write one gate for each column"
        raise DefinitionError(f"gates.{gate} takes a column's name, not a list: {advice}")
    check_identifier(column, f"gates.{gate}: a column name")
    return str(column)


def _ordered(what: str, low: Any, high: Any) -> None:
    try:
        wrong = low is not None and high is not None and low > high
    except TypeError:
        raise DefinitionError(f"{what}: min={low!r} and max={high!r} cannot be compared") from None
    if wrong:
        raise DefinitionError(f"{what}: min={low!r} is above max={high!r}, so nothing could pass")


def _bounds(low: object, high: object) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"between {low} and {high}"
