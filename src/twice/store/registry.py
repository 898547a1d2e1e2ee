"""The store types by name: where the row of each is, which is imported when a configuration names the type."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from twice.store.store_type import StoreType

# The type of a store that no configuration describes.
DEFAULT = "iceberg"
_ROWS = {
    "iceberg": "twice.store.iceberg.store_type:ICEBERG",
    "delta": "twice.store.delta.store_type:DELTA",
    "parquet": "twice.store.parquet.store_type:PARQUET",
    "sql": "twice.store.sql.store_type:SQL",
    "files": "twice.store.files.store_type:FILES",
    "catalog": "twice.store.catalog.store_type:CATALOG",
}


def type_names() -> tuple[str, ...]:
    """List the types that a configuration may name."""
    return tuple(_ROWS)


def store_type(name: str) -> StoreType:
    """Return the row of a known type."""
    module, _, row = _ROWS[name].partition(":")
    found = getattr(import_module(module), row)
    assert isinstance(found, StoreType)  # noqa: S101 - the table above names rows
    return found


def usable_types() -> Iterator[StoreType]:
    """Yield the row of every type."""
    yield from (store_type(name) for name in type_names())
