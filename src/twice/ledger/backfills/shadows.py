"""Shadows: tables that a backfill builds out of sight of readers, until they are swapped in or dropped.

building ──swap──▶ swapping (table by table) ──▶ swapped        building, swapping ──drop──▶ dropping ──▶ dropped
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from twice.errors import ScopeHeld, UsageError
from twice.ledger.backfills.infos import OPEN_STATES, Shadow, shadow_of
from twice.ledger.backfills.overlaps import refuse_overlap
from twice.ledger.backfills.workers import forget_worker, live_workers, register
from twice.ledger.db.encoding import scope_of, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import CURRENT, backfills, claims, outputs
from twice.ledger.inputs import store_inputs
from twice.ledger.leases.rows import lock_table
from twice.ledger.outputs.rows import output_row
from twice.ledger.values import Output, Owner


class Shadows(LedgerPart):
    """The part of the ledger that follows shadows."""

    def begin(self, backfill: str, tables: Mapping[str, str]) -> Shadow:
        """Record which shadows a backfill builds, before the first of them is created."""
        with self._write() as connection:
            shadow = _read(connection, backfill) or Shadow(tables)
            return _write(connection, backfill, replace(shadow, begun_at=shadow.begun_at or self._now(connection)))

    def inherit(self, backfill: str, table: str, known: Sequence[Output], odd: Mapping[str, str]) -> None:
        """Record what a shadow began with: partitions as recorded, and those that hold something else."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "building")
            name = shadow.tables[table]
            lock_table(connection, name)
            ids = store_inputs(connection, [output.inputs for output in known])
            rows = [
                output_row(replace(output, table=name), inputs, 0, None, CURRENT)
                | {"recorded_at": self._now(connection)}
                for output, inputs in zip(known, ids, strict=True)
            ]
            if rows:
                connection.execute(sa.insert(outputs), rows)
            _write(connection, backfill, replace(shadow, odd={**shadow.odd, table: dict(odd)}))

    def find(self, backfill: str) -> Shadow | None:
        """Return the shadows of a backfill; None if it works on the tables themselves."""
        with self._read() as connection:
            return _read(connection, backfill)

    def begin_swap(self, backfill: str, *, ttl: timedelta, owner: Owner | None = None) -> Shadow:
        """Take a shadow from built to swapping, with this process at work on it; a partly swapped one continues.

        Refused while another backfill is at work on the tables: its later chunks would overwrite the swap.
        """
        owner = owner or Owner.here()
        with self._write() as connection:
            self.database.lock(connection, backfills)
            shadow, now = _need(connection, backfill, "building", "swapping"), self._now(connection)
            row = connection.execute(sa.select(backfills).where(backfills.c.id == backfill)).one()
            others = [other for other in live_workers(connection, backfill, now) if other != owner]
            if others and shadow.state == "swapping":
                raise ScopeHeld(
                    f"the shadow of backfill {backfill} is being swapped in on {others[0]}",
                    unchanged="nothing was changed; that process continues",
                    next_step=f"twice backfill show {backfill}",
                )
            refuse_overlap(connection, now, scope_of(row), list(shadow.tables), but=backfill)
            register(connection, backfill, owner, now + ttl)
            return _write(connection, backfill, replace(shadow, state="swapping"))

    def show(self, backfill: str) -> None:
        """Record, before the first commit of a swap, that readers may see some of it from now on."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "swapping")
            if not shadow.shown:
                _write(connection, backfill, replace(shadow, shown=True))

    def leave_swap(self, backfill: str, owner: Owner | None = None) -> None:
        """Stop swapping; a shadow that readers have not seen returns to its earlier state."""
        with self._write() as connection:
            forget_worker(connection, backfill, owner or Owner.here())
            shadow = _read(connection, backfill)
            if shadow is not None and shadow.state == "swapping" and not shadow.shown:
                _write(connection, backfill, replace(shadow, state="building"))

    def table_swapped(self, backfill: str, table: str, version: str) -> Shadow:
        """Record that one table shows its shadow's rows; the last one ends the swap."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "swapping")
            done = {**shadow.swapped, table: version}
            state = "swapped" if set(done) == set(shadow.tables) else "swapping"
            return _write(connection, backfill, replace(shadow, state=state, swapped=done, shown=True))

    def begin_drop(self, backfill: str) -> Shadow:
        """Let no process build or swap a shadow any more; swapped tables stay swapped."""
        with self._write() as connection:
            self.database.lock(connection, backfills)
            shadow = _need(connection, backfill, "building", "swapping", "swapped", "dropping")
            row = connection.execute(sa.select(backfills).where(backfills.c.id == backfill)).one()
            now = self._now(connection)
            at_work = row.status in OPEN_STATES or shadow.state == "swapping"
            if at_work and (owners := live_workers(connection, backfill, now)):
                raise UsageError(
                    f"backfill {backfill} is at work on {owners[0]}",
                    unchanged="nothing was dropped",
                    next_step=f"twice backfill cancel {backfill}" if row.status in OPEN_STATES else "wait for its swap",
                )
            if row.status in OPEN_STATES:
                ended = {"status": "cancelled", "finished_at": now}
                connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(**ended))
            state = shadow.state if shadow.state == "swapped" else "dropping"
            return _write(connection, backfill, replace(shadow, state=state))

    def end(self, backfill: str) -> None:
        """Forget what the shadows held, once they are removed."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "swapped", "dropping")
            for name in shadow.tables.values():
                for each in (outputs, claims):
                    connection.execute(sa.delete(each).where(each.c.table_name == name))
            state = "swapped" if shadow.state == "swapped" else "dropped"
            _write(connection, backfill, replace(shadow, state=state, removed=True))


def _read(connection: sa.Connection, backfill: str) -> Shadow | None:
    return shadow_of(connection.scalar(sa.select(backfills.c.shadow).where(backfills.c.id == backfill)) or "")


def _need(connection: sa.Connection, backfill: str, *states: str) -> Shadow:
    shadow = _read(connection, backfill)
    if shadow is None:
        raise UsageError(f"backfill {backfill} has no shadow: it works on the tables themselves")
    if shadow.state not in states:
        raise UsageError(
            f"the shadow of backfill {backfill} is already {shadow.state}", unchanged="nothing was changed"
        )
    return shadow


def _write(connection: sa.Connection, backfill: str, shadow: Shadow) -> Shadow:
    text = to_text(shadow.to_json())
    connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(shadow=text))
    return shadow
