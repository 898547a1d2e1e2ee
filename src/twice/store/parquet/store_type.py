"""The row of `type = "parquet"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.store.parquet.settings import DEFAULT_PATH
from twice.store.store_type import LocalStore, StoreType

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.store.protocol import Source


def _open(store: StoreConfig, root: Path) -> Source:
    from twice.store.parquet.store import ParquetStore

    return ParquetStore(store, root)


PARQUET = StoreType(
    "parquet",
    keys=("path",),
    open=_open,
    places={"path": DEFAULT_PATH},
    local=LocalStore({"path": "{folder}/parquet/{name}"}),
)
