"""Shadows: tables that a backfill builds where no reader looks, until they are swapped in or dropped.

building ──swap──▶ swapping (table by table) ──▶ swapped        building ──drop──▶ dropped
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.book import Book
from twice.ledger.encoding import scope_text, to_text
from twice.ledger.outputs import current_outputs, touching
from twice.ledger.schema import CURRENT, SUPERSEDED, backfills, claims, instant_of, instant_text, outputs
from twice.ledger.values import Output
from twice.model.windows import Window


@dataclass(frozen=True)
class Shadow:
    """The shadows of one backfill: by table its shadow's name, and the version of each swap that is done."""

    tables: Mapping[str, str]
    state: str = "building"
    begun_at: datetime | None = None
    swapped: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {
            "state": self.state,
            "tables": dict(self.tables),
            "begun_at": instant_text(self.begun_at) if self.begun_at else None,
            "swapped": dict(self.swapped),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Shadow:
        """Read what `to_json` wrote."""
        begun = instant_of(value["begun_at"]) if value["begun_at"] else None
        return cls(value["tables"], value["state"], begun, value["swapped"])


class Shadows(Book):
    """The part of the ledger that follows shadows."""

    def begin_shadow(self, backfill: str, tables: Mapping[str, str]) -> None:
        """Write down which shadows a backfill builds, before the first of them is begun."""
        with self._write() as connection:
            shadow = _read(connection, backfill) or Shadow(tables)
            _write(connection, backfill, replace(shadow, begun_at=shadow.begun_at or self._now(connection)))

    def shadow(self, backfill: str) -> Shadow | None:
        """Return the shadows of a backfill; None if it works on the tables themselves."""
        with self._read() as connection:
            return _read(connection, backfill)

    def begin_swap(self, backfill: str) -> Shadow:
        """Take a shadow from built to swapping; one that is swapped halfway goes on."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "building", "swapping")
            return _write(connection, backfill, replace(shadow, state="swapping"))

    def table_swapped(self, backfill: str, table: str, version: str) -> Shadow:
        """Write down that one table shows its shadow's rows; the last one ends the swap."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "swapping")
            done = {**shadow.swapped, table: version}
            state = "swapped" if set(done) == set(shadow.tables) else "swapping"
            return _write(connection, backfill, replace(shadow, state=state, swapped=done))

    def end_shadow(self, backfill: str) -> None:
        """Forget what the shadows held, once they are removed."""
        with self._write() as connection:
            shadow = _need(connection, backfill, "building", "swapped", "dropped")
            for name in shadow.tables.values():
                for each in (outputs, claims):
                    connection.execute(sa.delete(each).where(each.c.table_name == name))
            state = "swapped" if shadow.state == "swapped" else "dropped"
            _write(connection, backfill, replace(shadow, state=state))

    def changed_since(self, table: str, window: Window | None, moment: datetime) -> list[Output]:
        """List what has been published with another content since a moment."""
        mine = [outputs.c.table_name == table]
        if window:
            mine.append(sa.or_(outputs.c.window_start.is_(None), touching(window)))
        then = (
            outputs.c.recorded_at <= moment,
            sa.or_(outputs.c.superseded_at.is_(None), outputs.c.superseded_at > moment),
        )
        query = sa.select(outputs.c.scope, outputs.c.digest).where(
            *mine, *then, outputs.c.state.in_((CURRENT, SUPERSEDED))
        )
        with self._read() as connection:
            newer = current_outputs(connection, *mine, outputs.c.recorded_at > moment)
            before = {row.scope: row.digest for row in connection.execute(query)} if newer else {}
        return [output for output in newer if before.get(scope_text(output.scope)) != output.digest]


def shadow_of(text: str) -> Shadow | None:
    """Read a backfill's shadows from their column."""
    return Shadow.from_json(json.loads(text)) if text else None


def _read(connection: sa.Connection, backfill: str) -> Shadow | None:
    return shadow_of(connection.scalar(sa.select(backfills.c.shadow).where(backfills.c.id == backfill)) or "")


def _need(connection: sa.Connection, backfill: str, *states: str) -> Shadow:
    shadow = _read(connection, backfill)
    if shadow is None:
        raise UsageError(f"backfill {backfill} has no shadow: it works on the tables themselves")
    if shadow.state not in states:
        raise UsageError(f"the shadow of backfill {backfill} is {shadow.state} already", safe="nothing was changed")
    return shadow


def _write(connection: sa.Connection, backfill: str, shadow: Shadow) -> Shadow:
    text = to_text(shadow.to_json())
    connection.execute(sa.update(backfills).where(backfills.c.id == backfill).values(shadow=text))
    return shadow
