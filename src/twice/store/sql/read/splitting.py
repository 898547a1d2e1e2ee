"""Into how many queries a read of Postgres is split, and where.

A table that is read through an index is cut along the time that the index finds; one that is read from end to end
is cut by where its rows lie, so that all tasks together read it once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    import datetime as dt

    from twice.model.names import TableName
    from twice.store.sql.database import Database

# Fewer rows than this arrive sooner over one connection.
WORTH_A_TASK = 100_000
_MOST = 16
_SINCE = 140_000  # before Postgres 14 every range of places was found by reading the whole table
_RELATION = sa.text(
    "SELECT c.relkind::text AS kind, greatest(c.relpages, pg_relation_size(c.oid) / "
    "current_setting('block_size')::int) AS pages FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name"
)


@dataclass(frozen=True)
class Span:
    """The instants that a read is cut to, in a column of the table; its bounds are written by `literal`."""

    column: str
    start: dt.datetime | dt.date
    end: dt.datetime | dt.date
    kind: str

    def literal(self, value: dt.datetime | dt.date) -> str:
        """Write a bound as the database reads it."""
        return f"{self.kind} '{value.isoformat()}'"

    @property
    def condition(self) -> str:
        """Select the rows of the span."""
        return f"({self.column} >= {self.literal(self.start)} AND {self.column} < {self.literal(self.end)})"


@dataclass(frozen=True)
class Split:
    """Conditions that cut a query's rows into parts, over the expression `place`."""

    place: str
    conditions: tuple[str, ...]


def split(
    connection: sa.Connection, database: Database, table: TableName, chosen: str, span: Span | None, tasks: int
) -> Split | None:
    """Choose how to cut the rows of `chosen`, a FROM clause; None where one connection is fastest."""
    plan = connection.execute(verbatim(f"EXPLAIN (FORMAT JSON) SELECT 1 {chosen}")).scalar_one()
    tree = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    parts = min(tasks, _MOST, int(tree["Plan Rows"]) // WORTH_A_TASK)
    if parts < 2:
        return None
    if span is not None and any("Index" in kind for kind in _nodes(tree)):
        return _by_time(span, parts)
    version = int(connection.execute(sa.text("SELECT current_setting('server_version_num')")).scalar_one())
    found = connection.execute(_RELATION, {"schema": database.schema(table), "name": table.parts[-1]}).one()
    if found.kind not in {"r", "m"} or version < _SINCE:
        return None
    return by_place(int(found.pages), parts)


def verbatim(statement: str) -> sa.TextClause:
    """Send a statement as it is: its colons are not parameters."""
    return sa.text(statement.replace(":", "\\:"))


def _nodes(tree: dict[str, Any]) -> list[str]:
    return [tree["Node Type"], *(kind for child in tree.get("Plans", []) for kind in _nodes(child))]


def _by_time(span: Span, parts: int) -> Split | None:
    start: Any = span.start  # a date or a time, as the end is
    width = span.end - start
    cuts = sorted({start + width * part / parts for part in range(1, parts)} - {start, span.end})
    if not cuts:
        return None
    return Split(span.column, _ranges([span.literal(cut) for cut in cuts]))


def by_place(pages: int, parts: int) -> Split | None:
    """Cut a table by where its rows lie; None if there is too little to cut."""
    cuts = sorted({pages * part // parts for part in range(1, parts)} - {0})
    if not cuts:
        return None
    return Split("ctid", _ranges([f"'({cut},0)'::tid" for cut in cuts]))


def _ranges(edges: list[str]) -> tuple[str, ...]:
    """Cut at the edges; the ends stay open, because rows of a snapshot may lie anywhere."""
    middle = [f'"place" >= {start} AND "place" < {end}' for start, end in pairwise(edges)]
    return (f'"place" < {edges[0]}', *middle, f'"place" >= {edges[-1]}')
