"""Expressions of all languages as one kind of tree: what a rule looks at inside a filter, a key or a column.

`CURRENT_DATE - 1`, `F.date_sub(F.current_date(), 1)` and `f"... {date.today()} ..."` all become trees in which
`tree.find("clock")` gives the places where the clock is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from twice.audit.keeping import kept
from twice.audit.places import NOWHERE, Place

if TYPE_CHECKING:
    from twice.audit.queries import Query

ExprKind = Literal["column", "literal", "call", "op", "param", "star", "query", "window", "case", "python", "other"]
OriginKind = Literal[
    "clock",  # now, today, current_date …
    "random",  # uuid4, rand, random(), NEWID …
    "hash",  # Python's salted hash()
    "counter",  # monotonically_increasing_id, zipWithIndex, zipWithUniqueId
    "sequence",  # nextval, identity, max(id) + 1
    "environment",  # os.environ, getcwd, hostname
    "listing",  # os.listdir, glob, newest by mtime
    "state",  # Airflow Variable, XCom, a state file, a Dagster cursor
    "watermark",  # the result of MAX(…) over a table that the job itself writes or reads
    "parameter",  # argparse, sys.argv, function argument, logical date, widget, dbt var: given from outside
    "file",  # the modification time or name of an input file
    "set",  # the iteration order of a Python set
]


_CALLS = frozenset({"call", "window"})


@dataclass(frozen=True)
class Origin:
    """Where a value comes from that decides whether a rerun sees the same one.

    `name` is the call or parameter as written (`datetime.now`, `current_date`, `ds`), `fallback` is set when it is
    only the default for a missing parameter, `module_level` when Python asks while the file is imported.
    """

    kind: OriginKind
    name: str
    place: Place
    fallback: bool = False
    module_level: bool = False
    table: str = ""  # watermark: the table whose maximum it is


@dataclass(frozen=True)
class Order:
    """One term of an ORDER BY."""

    expr: Expr
    descending: bool = False


# Never changed, but not frozen: a file has thousands of them, and a frozen one takes four times as long to make.
@dataclass(unsafe_hash=True)
class Expr:
    """A node of an expression.

    kind       name                                            args
    column     the column, lower case (`table` its qualifier)  -
    literal    its text (`value` the Python value)             -
    call       the function, lower case, no module             the arguments
    op         and or not = <> < <= > >= between in like is    the operands (between: value, low, high)
               <=> + - * / % || case cast
    param      :name, ?, ${name}, {{ ds }}, a dbt var          -
    window     the function                                    function call first; partition_by, order_by
    query      -                                               `query` holds the sub-query
    python     the Python expression inside a SQL text         `origins` say where its value comes from
    star       *                                               -
    """

    kind: ExprKind
    name: str = ""
    args: tuple[Expr, ...] = ()
    place: Place = NOWHERE
    table: str = ""
    value: object = None
    origins: frozenset[Origin] = frozenset()
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[Order, ...] = ()
    query: Query | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)

    def walk(self, *, into_queries: bool = False) -> Iterator[Expr]:
        """Yield this node and all below it; sub-queries only on request."""
        if into_queries:
            return self._walk_into_queries()
        return iter((self, *self.below))

    # What is kept never holds the node itself: it is freed with its last reference, without garbage collection.
    @kept
    def below(self) -> tuple[Expr, ...]:
        """All nodes below this one, without sub-queries; kept, because every rule asks for them."""
        if not (self.args or self.partition_by or self.order_by):
            return ()
        found: list[Expr] = []
        stack = [self]
        while stack:
            node = stack.pop()
            found.append(node)
            if node.args:
                stack.extend(reversed(node.args))
            if node.partition_by:
                stack.extend(reversed(node.partition_by))
            if node.order_by:
                stack.extend(order.expr for order in reversed(node.order_by))
        return tuple(found[1:])

    @kept
    def subqueries(self) -> tuple[Query, ...]:
        """The sub-queries in it, without those inside of them."""
        return tuple([node.query for node in self.walk() if node.query is not None])

    @kept
    def kinds(self) -> frozenset[OriginKind]:
        """Where the values in it come from: of most expressions, from nowhere in particular."""
        return frozenset([origin.kind for node in self.walk() for origin in node.origins])

    def _walk_into_queries(self) -> Iterator[Expr]:
        entered: set[int] = set()  # one query may stand in many places, and queries in it in many places of it
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.args))
            stack.extend(reversed(node.partition_by))
            stack.extend(order.expr for order in reversed(node.order_by))
            if node.query is not None and id(node.query) not in entered:
                entered.add(id(node.query))
                stack.extend(node.query.expressions())

    @kept
    def bounds(self) -> tuple[Bound, ...]:
        """What it asks of single columns, if it is a predicate."""
        return tuple(_bounds(self))

    def find(self, kind: OriginKind, *, into_queries: bool = False) -> Iterator[tuple[Expr, Origin]]:
        """Yield the nodes whose value comes from such an origin."""
        if not into_queries and kind not in self.kinds:
            return
        for node in self.walk(into_queries=into_queries):
            for origin in sorted(node.origins, key=lambda one: (one.place, one.name)):
                if origin.kind == kind:
                    yield node, origin

    def has(self, kind: OriginKind) -> bool:
        """Return whether any part of it comes from such an origin."""
        return kind in self.kinds

    def calls(self, *names: str) -> Iterator[Expr]:
        """Return the calls of some functions (lower case), also those with OVER."""
        if not self.below:
            return iter((self,) if self.kind in _CALLS and self.name in names else ())
        return iter([node for node in self.walk() if node.kind in _CALLS and node.name in names])

    def columns(self) -> tuple[str, ...]:
        """Return the names of all columns in it, in order, without sub-queries."""
        if not self.below:
            return (self.name,) if self.kind == "column" else ()
        return tuple(dict.fromkeys([node.name for node in self.walk() if node.kind == "column"]))

    def conjuncts(self) -> Iterator[Expr]:
        """Split at AND."""
        if self.kind == "op" and self.name == "and":
            for arg in self.args:
                yield from arg.conjuncts()
        else:
            yield self

    def is_larger_than(self, count: int) -> bool:
        """Return whether it has more nodes than that, without looking at many more."""
        stack = [self]
        while stack and count >= 0:
            node = stack.pop()
            count -= 1
            stack.extend((*node.args, *node.partition_by, *(order.expr for order in node.order_by)))
        return count < 0

    @property
    def is_constant(self) -> bool:
        """Whether it holds no column, parameter, call or sub-query."""
        return all(node.kind in {"literal", "op", "case"} for node in self.walk())


def replaced(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return the tree with nodes exchanged for what `change` gives for them; sub-queries stay as they are."""
    found = change(expr)
    if found is not None:
        return found
    args = tuple(replaced(arg, change) for arg in expr.args)
    partition_by = tuple(replaced(part, change) for part in expr.partition_by)
    order_by = tuple(Order(replaced(one.expr, change), one.descending) for one in expr.order_by)
    before = (*expr.args, *expr.partition_by, *(one.expr for one in expr.order_by))
    if all(
        one is other for one, other in zip(before, (*args, *partition_by, *(one.expr for one in order_by)), strict=True)
    ):
        return expr
    return replace(expr, args=args, partition_by=partition_by, order_by=order_by)


@dataclass(frozen=True)
class Bound:
    """One side of a window over a column: `column op value`."""

    column: str
    op: Literal["=", "<", "<=", ">", ">=", "in"]
    value: Expr
    place: Place
    closed_range: bool = False  # it came from a BETWEEN
    cast_to_date: bool = False  # the column stood inside DATE(…), TO_DATE(…), TRUNC(…) or CAST(… AS DATE)


_DATE_CASTS = frozenset({"date", "to_date", "cast_date", "trunc", "date_trunc", "timestamp_trunc", "datetime_trunc"})
_MIRROR: dict[str, Literal["=", "<", "<=", ">", ">=", "in"]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def bounds(expr: Expr | None) -> tuple[Bound, ...]:
    """Return the bounds that a predicate puts on single columns, looking through AND only."""
    return expr.bounds if expr is not None else ()


def _bounds(expr: Expr) -> Iterator[Bound]:
    for part in expr.conjuncts():
        if part.kind != "op":
            continue
        if part.name == "between" and len(part.args) == 3:
            column, cast = bounded_column(part.args[0])
            if column:
                yield Bound(column, ">=", part.args[1], part.place, closed_range=True, cast_to_date=cast)
                yield Bound(column, "<=", part.args[2], part.place, closed_range=True, cast_to_date=cast)
        elif part.name in _MIRROR and len(part.args) == 2:
            left, right = part.args
            column, cast = bounded_column(left)
            other, other_cast = bounded_column(right)
            if column and not other:
                op = _MIRROR[_MIRROR[part.name]]
                yield Bound(column, op, right, part.place, cast_to_date=cast)
            elif other and not column:
                yield Bound(other, _MIRROR[part.name], left, part.place, cast_to_date=other_cast)
        elif part.name == "in" and part.args:
            column, cast = bounded_column(part.args[0])
            if column:
                rest = part.args[1] if len(part.args) == 2 else Expr("other", "tuple", part.args[1:], part.place)
                yield Bound(column, "in", rest, part.place, cast_to_date=cast)


def bounded_column(expr: Expr) -> tuple[str, bool]:
    """Return the column that an expression is about, also inside a cast to date, and whether it was cast."""
    cast = False
    while expr.kind in {"call", "op"} and expr.args:
        if expr.kind == "call" and expr.name in _DATE_CASTS:
            cast = True
            inner = [arg for arg in expr.args if arg.kind in {"column", "call"}]
            expr = inner[0] if inner else expr.args[0]
        elif expr.kind == "call" and expr.name.startswith("cast"):
            expr = expr.args[0]
        else:
            return "", False
    return (expr.name, cast) if expr.kind == "column" else ("", False)
