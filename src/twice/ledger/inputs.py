"""Lists of pinned inputs: each distinct one is stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from twice.ledger.db.database import insert_missing
from twice.ledger.db.encoding import content_id, inputs_of, inputs_text
from twice.ledger.db.schema import input_sets
from twice.ledger.values import InputRecord


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
