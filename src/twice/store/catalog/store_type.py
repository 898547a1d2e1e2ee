"""The row of `type = "catalog"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.store.store_type import StoreType

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.store.protocol import Source


def _open(store: StoreConfig, _root: Path) -> Source:
    from twice.store.catalog.store import CatalogSource

    return CatalogSource(store)


CATALOG = StoreType("catalog", keys=("catalog",), open=_open)
