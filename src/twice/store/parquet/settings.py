"""The folder of a Parquet store, and where it cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twice.errors import ConfigError

if TYPE_CHECKING:
    from twice.config import StoreConfig

DEFAULT_PATH = ".twice/{name}"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_RENAMES = ("hdfs", "viewfs")
# Spark would take these for patterns.
_PATTERN = re.compile(r"[{}\[\]*?\\]")


def root_of(store: StoreConfig, root: Path) -> str:
    """Return the store's folder: an absolute path of this machine, or an address with its scheme."""
    path = store.options.get("path", DEFAULT_PATH.format(name=store.name))
    if odd := _PATTERN.search(path):
        raise ConfigError(
            f"[stores.{store.name}] path = {path!r} holds {odd[0]}, which Spark reads as part of a pattern",
            unchanged="nothing was changed",
            next_step="give the folder another name",
        )
    if not (scheme := _SCHEME.match(path)):
        return str((root / path).resolve())
    if scheme[1].lower() == "file":
        return str(Path(urlsplit(path).path).resolve())
    if scheme[1].lower() in _RENAMES:
        return path.rstrip("/")
    raise ConfigError(
        f"[stores.{store.name}] path = {path!r}: folders on {scheme[1]}:// cannot be replaced as a whole, because "
        "an object store has no rename",
        unchanged="nothing was changed",
        next_step=f'keep the tables in an Iceberg store: [stores.{store.name}] type = "iceberg", warehouse = {path!r}',
    )


def is_local(root: str) -> bool:
    """Return whether the store lies on a disk of this machine."""
    return root.startswith("/")
