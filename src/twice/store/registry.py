"""The store types by name: those of twice, and those that installed packages add.

A package adds one by an entry point of the group `twice.stores`: its name is the type, its object a `StoreType`.
`config.py` imports this module, so it knows only where the rows of the stores are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module, metadata

from twice.errors import ConfigError
from twice.store.store_type import StoreType

GROUP = "twice.stores"
# The type of a store that no configuration describes.
DEFAULT = "iceberg"
_BUILT_IN = {
    "iceberg": "twice.store.iceberg.store_type:ICEBERG",
    "delta": "twice.store.delta.store_type:DELTA",
    "parquet": "twice.store.parquet.store_type:PARQUET",
    "sql": "twice.store.sql.store_type:SQL",
    "files": "twice.store.files.store_type:FILES",
    "catalog": "twice.store.catalog.store_type:CATALOG",
}


def type_names() -> tuple[str, ...]:
    """List the types that a configuration may name."""
    return (*_BUILT_IN, *(name for name in _installed() if name not in _BUILT_IN))


def store_type(name: str) -> StoreType:
    """Return the row of a known type; a package's row that cannot be used is refused."""
    packages = _installed().get(name, ())
    if len(packages) + (name in _BUILT_IN) > 1:
        raise ConfigError(
            f"the store type {name!r} is defined by {' and by '.join(_definers(name))}: one name, one type",
            unchanged="nothing was run",
            next_step=f"uninstall {_distribution(packages[-1])}, or rename its entry point",
        )
    return _loaded(packages[0]) if packages else _built_in(name)


def usable_types() -> Iterator[StoreType]:
    """Yield the row of every type; a package's row that cannot be used is left out."""
    for name in type_names():
        try:
            yield store_type(name)
        except ConfigError:
            continue


def _built_in(name: str) -> StoreType:
    module, _, row = _BUILT_IN[name].partition(":")
    found = getattr(import_module(module), row)
    assert isinstance(found, StoreType)  # noqa: S101 - the table above names rows
    return found


def _loaded(entry: metadata.EntryPoint) -> StoreType:
    try:
        found = entry.load()
    except Exception as error:
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, StoreType):
        raise _broken(entry, f"{entry.value} must be a StoreType, got {type(found).__name__}")
    try:
        re.compile(found.transient_errors)
    except re.error as error:
        raise _broken(entry, f"its transient_errors are not a regular expression: {error}") from None
    if found.name != entry.name:
        raise _broken(entry, f"its entry point is named {entry.name!r}, and its row {found.name!r}")
    return found


def _broken(entry: metadata.EntryPoint, why: str) -> ConfigError:
    return ConfigError(
        f"the store type {entry.name!r} of the package {_distribution(entry)} cannot be used: {why}",
        unchanged="nothing was run",
        next_step=f"repair or upgrade {_distribution(entry)}",
    )


def _definers(name: str) -> list[str]:
    built_in = ["twice"] if name in _BUILT_IN else []
    return built_in + [f"the package {_distribution(entry)}" for entry in _installed()[name]]


def _distribution(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _installed() -> dict[str, tuple[metadata.EntryPoint, ...]]:
    return _entry_points(tuple(sys.path))


@lru_cache(maxsize=4)
def _entry_points(_path: tuple[str, ...]) -> dict[str, tuple[metadata.EntryPoint, ...]]:
    """Find the entry points of the packages on a path, by name."""
    found: dict[str, tuple[metadata.EntryPoint, ...]] = {}
    for entry in metadata.entry_points(group=GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found
