"""The row of `type = "files"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.store.files.settings import read_settings
from twice.store.store_type import StoreType

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.store.protocol import Source


def _open(store: StoreConfig, root: Path) -> Source:
    from twice.store.files.store import FilesSource

    return FilesSource(read_settings(store, root))


FILES = StoreType("files", keys=("path", "format", "option.NAME"), open=_open, places={"path": ""})
