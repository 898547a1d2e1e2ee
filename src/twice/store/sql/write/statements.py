"""How a staging table becomes part of its target: the statements inside the one publish transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from twice.failpoints import fail_point
from twice.model.framework import WINDOW_COLUMN
from twice.model.patterns import Merge
from twice.store.sql.schema import conditions

if TYPE_CHECKING:
    from twice.model.tables import Table

_SAMPLE = 2_000
# Above this share of rows that differ, deleting and inserting all of them costs less.
_LITTLE = 0.2
# Up to this share of rows that lie before their predecessor, sorting all of them costs more than it saves.
_FEW = 0.1


def _deleted() -> None:
    fail_point("sql.deleted")


def _run(connection: sa.Connection, statement: sa.Insert | sa.Delete) -> int:
    """Run a statement and return how many rows it wrote or deleted."""
    return int(connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount)


class Move:
    """A staging table, its target, the columns that move and the key that finds a row in both."""

    def __init__(
        self, target: sa.Table, source: sa.Table, columns: Sequence[str], key: Sequence[str], *, sort: bool = False
    ) -> None:
        """`sort`: insert rows of Postgres in the order of the key, through its index from one end to the other."""
        self.target, self.source = target, source
        self.columns, self.key = tuple(columns), tuple(key)
        self._order = self.key if sort else ()

    def replace(
        self, connection: sa.Connection, here: sa.ColumnElement[bool], there: sa.ColumnElement[bool]
    ) -> tuple[int, int]:
        """Delete rows of the target and insert those of the staging table; return how many of each."""
        gone = _run(connection, self.target.delete().where(here))
        _deleted()
        return gone, _run(connection, self._insert(self._staged().where(there)))

    def differs_little(self, connection: sa.Connection, there: sa.ColumnElement[bool], staged: int) -> bool:
        """Return whether most of some staged rows of Postgres are equal in the target, where they are found by key."""
        some = self._some(staged)
        if some is None:
            picked = sa.select(*self.source.columns).where(there).limit(_SAMPLE).subquery("s")
        else:
            picked = sa.select(*some.columns).limit(_SAMPLE).subquery("s")
        ours = {column.name: picked.c[column.key] for column in self.source.columns}
        theirs = {column.name: column for column in self.target.columns}
        same_key = sa.and_(*(ours[name] == theirs[name] for name in self.key))
        same = sa.and_(theirs[self.key[0]].is_not(None), *(~self._distinct(ours[n], theirs[n]) for n in self.columns))
        query = sa.select(sa.func.count(), sa.func.count().filter(same)).select_from(
            picked.outerjoin(self.target, same_key)
        )
        seen, equal = connection.execute(query).one()
        return bool(seen) and (seen - equal) / seen <= _LITTLE

    def is_in_order(self, connection: sa.Connection, staged: int) -> bool:
        """Return whether some staged rows of Postgres are stored in the order of the key."""
        some = self._some(staged)
        if some is None:
            return False  # so few are sorted faster than sampled
        where = {column.name: column for column in some.columns}
        place: sa.ColumnElement[Any] = sa.literal_column("ctid")
        rows = sa.select(
            *(where[name].label(f"k{i}") for i, name in enumerate(self.key)),
            *(sa.func.lag(where[name]).over(order_by=place).label(f"p{i}") for i, name in enumerate(self.key)),
        ).subquery("s")
        key, previous = ([rows.c[f"{letter}{i}"] for i in range(len(self.key))] for letter in "kp")
        query = sa.select(sa.func.count(), sa.func.count().filter(sa.tuple_(*key) < sa.tuple_(*previous)))
        seen, back = connection.execute(query).one()
        return bool(seen) and back / seen <= _FEW

    def sorted(self) -> Move:
        """Return the same move, which inserts in the order of the key."""
        return Move(self.target, self.source, self.columns, self.key, sort=True)

    def difference(
        self, connection: sa.Connection, here: sa.ColumnElement[bool], there: sa.ColumnElement[bool]
    ) -> None:
        """Bring the target's rows to what is staged by touching only those that differ."""
        match = self._match()
        connection.execute(self.target.delete().where(here, ~sa.exists().where(match)))
        _deleted()
        rest = [name for name in self.columns if name not in self.key]
        if rest:
            changed = sa.or_(*(self._distinct(self._there(name), self._here(name)) for name in rest))
            connection.execute(
                self.target.update()
                .values({self._here(name): self._there(name) for name in rest})
                .where(match, here, changed)
            )
        connection.execute(self._insert(self._staged().where(there, ~self._in_target())))

    def merge(self, connection: sa.Connection, table: Table) -> int:
        """Upsert the staged rows of Postgres by key; a row that is not newer is left alone."""
        insert = postgresql.insert(self.target).from_select(self._names(), self._sorted(self._staged()))
        new = {column.name: insert.excluded[column.key] for column in self.target.columns}
        rest = [name for name in self.columns if name not in self.key]
        guard = None
        if isinstance(table.write, Merge):
            version = table.write.version
            guard = sa.or_(
                self._here(version).is_(None),
                self._here(version) < new[version],
                sa.and_(self._here(version) == new[version], self._here(WINDOW_COLUMN) == new[WINDOW_COLUMN]),
            )
        upsert = insert.on_conflict_do_update(
            index_elements=[self._here(name) for name in self.key],
            set_={self._here(name): new[name] for name in rest},
            where=guard,
        )
        return _run(connection, upsert)

    def insert_only(self, connection: sa.Connection) -> int:
        """Insert the staged rows of Postgres whose keys are new."""
        insert = postgresql.insert(self.target).from_select(self._names(), self._sorted(self._staged()))
        return _run(connection, insert.on_conflict_do_nothing(index_elements=[self._here(name) for name in self.key]))

    def exchange(self, connection: sa.Connection, *, delete: bool) -> int:
        """Insert the staged rows in any database, where `delete` in the place of those with their keys."""
        if delete:
            connection.execute(self.target.delete().where(self.replaced()))
            _deleted()
            return _run(connection, self._insert(self._staged()))
        return _run(connection, self._insert(self._staged().where(~self._in_target())))

    def replaced(self) -> sa.ColumnElement[bool]:
        """Select the rows of the target that an exchange replaces."""
        return sa.exists().where(self._match())

    def _insert(self, rows: sa.Select[Any]) -> sa.Insert:
        return self.target.insert().from_select(self._names(), self._sorted(rows))

    def _some(self, staged: int) -> sa.TableSample | None:
        """Return a sample of the staged rows; None where they are too few for one."""
        share = 150.0 * _SAMPLE / max(staged, 1)
        # The same sample each time: what a run does must not depend on chance.
        return sa.tablesample(self.source, sa.func.system(share), seed=sa.literal(1)) if share < 100 else None

    def _sorted(self, rows: sa.Select[Any]) -> sa.Select[Any]:
        return rows.order_by(*(self._there(name) for name in self._order))

    def _names(self) -> list[Any]:
        return [self._here(name) for name in self.columns]

    def _staged(self) -> sa.Select[Any]:
        return sa.select(*(self._there(name) for name in self.columns))

    def _match(self) -> sa.ColumnElement[bool]:
        return sa.and_(*(self._there(name) == self._here(name) for name in self.key))

    def _in_target(self) -> sa.ColumnElement[bool]:
        return sa.exists().where(self._match()).correlate(self.source)

    def _here(self, name: str) -> sa.Column[Any]:
        return conditions.column(self.target, name)

    def _there(self, name: str) -> sa.Column[Any]:
        return conditions.column(self.source, name)

    def _distinct(self, left: Any, right: Any) -> sa.ColumnElement[bool]:
        # Postgres cannot compare its older json type; its text it can.
        if str(getattr(right.type, "text", "")) == "json":
            left, right = sa.cast(left, sa.Text), sa.cast(right, sa.Text)
        found: sa.ColumnElement[bool] = left.is_distinct_from(right)
        return found
