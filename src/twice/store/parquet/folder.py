"""A table's folder, and the bookkeeping beside it.

Below the namespace's folder, `orders/` holds the partitions, as every reader of Hive-style tables expects
them, and `_twice/orders/` the rest: `log/`, `stage/TOKEN/` what a claim has written, `aside/TOKEN/` what a
publish has replaced. `aside/TOKEN` exists from before the publish until its last move is done: without it
nothing is moved aside any more, not even by a process that was stopped in the middle and wakes up later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.store.file_system import Files
from twice.store.parquet.log import Log, State
from twice.store.parquet.names import folder_name

if TYPE_CHECKING:
    from twice.model.tables import Table

BOOKKEEPING = "_twice"


@dataclass(frozen=True)
class Folder:
    """Where everything about one table is."""

    table: Table
    files: Files
    data: str
    bookkeeping: str
    log: Log

    @classmethod
    def of(cls, table: Table, files: Files, root: str, known: dict[str, int] | None = None) -> Folder:
        """Find a table's place below the store's folder."""
        space = "/".join([root, *map(folder_name, table.id.namespace)])
        name = folder_name(table.id.parts[-1])
        bookkeeping = f"{space}/{BOOKKEEPING}/{name}"
        return cls(table, files, f"{space}/{name}", bookkeeping, Log(files, bookkeeping, known))

    def stage(self, token: int) -> str:
        """Return the folder that belongs to one claim."""
        return f"{self.bookkeeping}/stage/{token}"

    def rows(self, token: int) -> str:
        """Return the folder of a claim's rows, laid out like the table."""
        return f"{self.stage(token)}/rows"

    def aside(self, token: int) -> str:
        """Return where a publish puts what it replaces."""
        return f"{self.bookkeeping}/aside/{token}"

    @property
    def trash(self) -> str:
        """Where folders wait to be removed."""
        return f"{self.bookkeeping}/trash"

    def tokens(self) -> list[int]:
        """List the claims that have something here."""
        found = [
            entry.name for part in ("stage", "aside") for entry in self.files.entries(f"{self.bookkeeping}/{part}")
        ]
        return sorted({int(name) for name in found if name.isdecimal()})

    def is_gone(self, head: State) -> bool:
        """Return whether the table went with its first attempt; one that began at the same moment keeps it."""
        return head.stands == "gone" and not self.tokens()

    def has_data(self) -> bool:
        """Return whether there is anything that a reader would read."""
        return any(not entry.hidden for entry in self.files.entries(self.data))
