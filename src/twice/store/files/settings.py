"""The configuration of a `files` store, and the options of Spark's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from twice.errors import ConfigError

if TYPE_CHECKING:
    from twice.config import StoreConfig

FORMATS = ("csv", "json", "parquet")
_PREFIX = "option."
# Options that the store sets itself: where it reads, and by which schema.
_OURS = {"path", "inferschema", "recursivefilelookup", "basepath", "ignorecorruptfiles", "ignoremissingfiles"}
# A text without an offset means the same instant whichever pipeline reads it.
_ZONE = {"timeZone": "UTC"}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # A record that cannot be read stops the run; a header in another order is an error, not other columns.
    "csv": {**_ZONE, "mode": "FAILFAST", "enforceSchema": "false", "columnPruning": "false"},
    "json": {**_ZONE, "mode": "FAILFAST"},
    "parquet": _ZONE,
}


@dataclass(frozen=True)
class FilesSettings:
    """Where the files are, their format, and how they are read."""

    path: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether the files lie on a disk of this machine."""
        return self.path.startswith("/")


def read_settings(store: StoreConfig, root: Path) -> FilesSettings:
    """Read a store's settings; what is missing is reported."""
    where = f"[stores.{store.name}]"
    own = {name: value for name, value in store.options.items() if not name.startswith(_PREFIX)}
    if not own.get("path"):
        raise ConfigError(f"{where} needs path: the folder that holds the files", next_step='add path = "landing"')
    if own.get("format") not in FORMATS:
        raise ConfigError(f"{where}: format is {own.get('format')!r}; it must be one of: {', '.join(FORMATS)}")
    given = {name.removeprefix(_PREFIX): value for name, value in store.options.items() if name.startswith(_PREFIX)}
    if ours := sorted(name for name in given if name.lower() in _OURS):
        raise ConfigError(f"{where}: option.{ours[0]} cannot be set: twice decides where and by which schema it reads")
    path = own["path"] if "://" in own["path"] else str((root / own["path"]).resolve())
    wanted = {name.lower() for name in given}
    defaults = {name: value for name, value in _DEFAULTS[own["format"]].items() if name.lower() not in wanted}
    return FilesSettings(path.rstrip("/") or "/", own["format"], defaults | given)
