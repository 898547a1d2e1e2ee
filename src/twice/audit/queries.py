"""Queries: SELECT statements and DataFrame chains, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from twice.audit.expressions import Expr, Order
from twice.audit.keeping import kept
from twice.audit.places import NOWHERE, Place


@dataclass(frozen=True)
class Column:
    """A column of the result: its name (lower case; "*" and "" exist) and how it is computed."""

    name: str
    expr: Expr
    place: Place = NOWHERE


@dataclass(frozen=True)
class Source:
    """What a query reads: a table, a path, or another query (`query`: sub-query, CTE or earlier DataFrame).

    `how` is "from" or the kind of the join: inner, left, right, full, cross, semi, anti. `on` is its condition;
    for `USING (a)` and `df.join(other, "a")` it is the equality of the columns.
    """

    name: str = ""
    alias: str = ""
    query: Query | None = field(default=None, compare=False)
    how: str = "from"
    on: Expr | None = None
    place: Place = NOWHERE
    kind: Literal["table", "path", "query", "function", "stream", "unknown"] = "table"
    path: Expr | None = None  # the path or table name as an expression, for its origins
    format: str = ""
    server: str = ""  # the address of the database, for what is read over JDBC


@dataclass
class Query:
    """One SELECT, or one run of DataFrame operations up to the next aggregation, limit or de-duplication.

    `filters` are conjuncts (WHERE, HAVING, QUALIFY, `.where`), `branches` the sides of a UNION (then the rest is
    empty but for what applies to the whole).
    """

    columns: list[Column] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    filters: list[Expr] = field(default_factory=list)
    group_by: list[Expr] = field(default_factory=list)
    order_by: list[Order] = field(default_factory=list)
    limit: Expr | None = None
    distinct: bool = False
    # dropDuplicates(["a"]) and DISTINCT ON (a): the columns of which one row is kept.
    distinct_on: tuple[str, ...] | None = None
    distinct_place: Place = NOWHERE
    sample: Expr | None = None
    sample_seeded: bool = False
    grouped: bool = False
    branches: list[Query] = field(default_factory=list)
    union_all: bool = True
    place: Place = NOWHERE
    language: Literal["sql", "dataframe", "pandas"] = "sql"
    streaming: bool = False
    watermark: str = ""  # withWatermark's column
    within_watermark: bool = False  # dropDuplicatesWithinWatermark
    pivot: bool = False
    settled: bool = field(default=False, compare=False, repr=False)  # nothing is changed any more
    hidden: frozenset[str] = frozenset()  # columns of what is below that .drop() removes
    incremental_only: frozenset[int] = frozenset()  # ids of filters inside {% if is_incremental() %}

    def expressions(self) -> Iterator[Expr]:
        """Yield the top expressions of this query alone: columns, filters, joins, groups, orders, limit."""
        for column in self.columns:
            yield column.expr
        yield from self.filters
        for source in self.sources:
            if source.on is not None:
                yield source.on
        yield from self.group_by
        for order in self.order_by:
            yield order.expr
        if self.limit is not None:
            yield self.limit
        if self.sample is not None:
            yield self.sample

    def walk(self) -> Iterator[Query]:
        """Yield this query and all below it: branches, sources, and sub-queries in expressions."""
        return iter((self, *self._below)) if self.settled else self._walk()

    @kept
    def _below(self) -> tuple[Query, ...]:
        return tuple(self._walk())[1:]

    def _walk(self) -> Iterator[Query]:
        seen: set[int] = set()
        stack: list[Query] = [self]
        while stack:
            query = stack.pop()
            if id(query) in seen:
                continue
            seen.add(id(query))
            yield query
            stack.extend(query.branches)
            stack.extend(source.query for source in query.sources if source.query is not None)
            for top in query.expressions():
                if top.subqueries:
                    stack.extend(top.subqueries)

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables and paths that it reads, at any depth."""
        names = [source.name for query in self.walk() for source in query.sources if source.query is None]
        return tuple(dict.fromkeys(name for name in names if name))

    def column(self, name: str) -> Column | None:
        """Return the column of that name, also through `SELECT *` over a single sub-query."""
        query: Query | None = self
        for _ in range(50):
            if query is None:
                return None
            for column in query.columns:
                if column.name == name.lower():
                    return column
            inner = [source.query for source in query.sources if source.query is not None]
            stars = not query.columns or any(column.name == "*" for column in query.columns)
            query = (inner[0] if stars and inner else None) or (query.branches[0] if query.branches else None)
        return None

    def definition(self, name: str) -> Expr | None:
        """Return how a column is computed, following plain renamings into sub-queries."""
        query: Query | None = self
        found: Expr | None = None
        for _ in range(50):
            column = query.column(name) if query is not None else None
            if query is None or column is None or (found is not None and column.expr is found):
                return found
            found = column.expr
            if found.kind != "column":
                return found
            name = found.name
            query = next((source.query for source in query.sources if source.query is not None), None)
        return found
