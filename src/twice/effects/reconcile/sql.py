"""Ask a database whether a row with a key is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from twice.errors import DefinitionError


def sql_lookup(url: str, query: str) -> Callable[[str, Any], Any]:
    """Return a reconcile function: a query with `:key` in it; no row means that the call was not made."""
    if ":key" not in query:
        raise DefinitionError(f"sql_lookup(query={query!r}) must have :key in it")

    def look(key: str, _payload: Any) -> Any:
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            row = connection.execute(sa.text(query), {"key": key}).mappings().first()
        return {name: _plain(value) for name, value in row.items()} if row is not None else None

    return look


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str) else str(value)
