"""What every part of the ledger stands on: one database and one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

import sqlalchemy as sa

from twice.ledger.clock import Clock
from twice.ledger.dialect import Database, insert_missing
from twice.ledger.encoding import inputs_id, inputs_of, inputs_text
from twice.ledger.schema import input_sets, runs
from twice.ledger.values import InputRecord


class Book:
    """A database and a clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self.clock = clock
        self.url = database.shown

    def _read(self) -> AbstractContextManager[sa.Connection]:
        return self._database.read()

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._database.write()


def store_inputs(connection: sa.Connection, lists: Sequence[Sequence[InputRecord]]) -> list[str]:
    """Store lists of pinned inputs, each distinct one once; return their ids in the same order."""
    # The outputs of one attempt share one list: it is written as text once.
    written = {id(inputs): inputs_text(inputs) for inputs in {id(inputs): inputs for inputs in lists}.values()}
    texts = [written[id(inputs)] for inputs in lists]
    found = {text: inputs_id(text) for text in texts}
    insert_missing(connection, input_sets, [{"id": key, "content": text} for text, key in found.items()])
    return [found[text] for text in texts]


def load_inputs(connection: sa.Connection, ids: sa.Select[tuple[str]]) -> Mapping[str, tuple[InputRecord, ...]]:
    """Read the lists of pinned inputs that a query of their ids names, each distinct one once."""
    query = sa.select(input_sets.c.id, input_sets.c.content).where(input_sets.c.id.in_(ids))
    return {row.id: inputs_of(row.content) for row in connection.execute(query)}


def saw(connection: sa.Connection, run: str | None, now: datetime) -> None:
    """Note that a run's process was alive just now."""
    if run is not None:
        connection.execute(sa.update(runs).where(runs.c.id == run, runs.c.status == "running").values(seen_at=now))
