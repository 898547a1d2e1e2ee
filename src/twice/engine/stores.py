"""From a table's name to the store that keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.store.iceberg import IcebergStore

if TYPE_CHECKING:
    from twice.config import Config
    from twice.model.tables import Table
    from twice.store.protocol import Store


class Stores:
    """The stores of a configuration, opened once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: dict[str, Store] = {}

    def of(self, table: Table) -> Store:
        """Return the store that a table lives in."""
        name = table.id.store
        if name not in self._open:
            self._config.store(name)
            self._open[name] = IcebergStore()
        return self._open[name]
