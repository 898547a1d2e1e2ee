"""What every part of the ledger stands on: one database and one clock.

Rows are locked in one order, so that no two processes wait for each other: tokens, claims, outputs, input_sets,
attempts, runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

import sqlalchemy as sa

from twice.ledger.db.clock import Clock, ServerClock
from twice.ledger.db.database import Database, insert_missing
from twice.ledger.db.encoding import content_id, details_text, inputs_of, inputs_text
from twice.ledger.db.schema import environments, input_sets, runs, tokens
from twice.ledger.values import InputRecord


class LedgerPart:
    """A database and a clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.url = database.shown

    def _read(self) -> AbstractContextManager[sa.Connection]:
        return self.database.read()

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self.database.write()

    def _now(self, connection: sa.Connection) -> datetime:
        """Return this moment; asked after a lock was waited for, it is the moment of the lock."""
        return self.clock.within(connection) if isinstance(self.clock, ServerClock) else self.clock.now()


def store_inputs(connection: sa.Connection, lists: Sequence[Sequence[InputRecord]]) -> list[str]:
    """Store lists of pinned inputs, each distinct one once; return their ids in the same order."""
    # The outputs of one attempt share one list: it is written as text once.
    written = {id(inputs): inputs_text(inputs) for inputs in {id(inputs): inputs for inputs in lists}.values()}
    texts = [written[id(inputs)] for inputs in lists]
    found = {text: content_id(text) for text in texts}
    # In the order of their ids: two processes that store the same lists never wait for each other in a circle.
    rows = sorted((key, text) for text, key in found.items())
    insert_missing(connection, input_sets, [{"id": key, "content": text} for key, text in rows])
    return [found[text] for text in texts]


def load_inputs(connection: sa.Connection, ids: sa.Select[tuple[str]]) -> Mapping[str, tuple[InputRecord, ...]]:
    """Read the lists of pinned inputs that a query of their ids names, each distinct one once."""
    query = sa.select(input_sets.c.id, input_sets.c.content).where(input_sets.c.id.in_(ids))
    return {row.id: inputs_of(row.content) for row in connection.execute(query)}


def store_environment(connection: sa.Connection, environment: Mapping[str, object] | None) -> str | None:
    """Store what a run is made with, each distinct content once; return its id."""
    if not environment:
        return None
    text = details_text(environment)
    insert_missing(connection, environments, [{"id": content_id(text), "content": text}])
    return content_id(text)


def lock_table(connection: sa.Connection, table: str) -> int:
    """Let one transaction at a time decide about a table, until it ends; return the table's highest token."""
    insert_missing(connection, tokens, [{"table_name": table, "highest": 0}])
    query = sa.select(tokens.c.highest).where(tokens.c.table_name == table).with_for_update()
    return int(connection.execute(query).scalar_one())


def saw(connection: sa.Connection, run: str | None, now: datetime) -> None:
    """Note that a run's process was alive just now."""
    if run is not None:
        connection.execute(sa.update(runs).where(runs.c.id == run, runs.c.status == "running").values(seen_at=now))
