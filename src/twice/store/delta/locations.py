"""From a table's name to the place of its Delta log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from twice.errors import StoreRefused
from twice.model.names import quote
from twice.store.delta import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.names import TableName
    from twice.store.delta.settings import Settings

_ODD = re.compile(r"[^\w.-]")


def folder(part: str) -> str:
    """Spell a name as one folder that needs no quoting anywhere; different names never collide.

    >>> folder("fct_orders"), folder("a/b~`c")
    ('fct_orders', 'a~2f~b~7e~~60~c')
    """
    spelled = _ODD.sub(lambda odd: f"~{ord(odd[0]):x}~", part)
    # Folders that begin like this are hidden from Delta's own maintenance.
    return re.sub(r"^[_.]", lambda first: f"~{ord(first[0]):x}~", spelled)


class Locations:
    """The logs of a store's tables."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def path(self, name: TableName) -> str | None:
        """Return a table's folder; None where the catalog decides."""
        if self._settings.root is None:
            return None
        # Always two levels, so that no table ever lies inside another one's folder.
        space = ".".join(folder(part).replace(".", "~2e~") for part in name.namespace)
        return f"{self._settings.root}/{space}/{folder(name.parts[-1])}"

    def sql(self, name: TableName) -> str:
        """Return the table's name as Spark SQL reads it."""
        path = self.path(name)
        if path is not None:
            return f"delta.{quote(path)}"
        return ".".join(quote(part) for part in ("spark_catalog", *name.parts[1:]))

    def log(self, session: SparkSession, name: TableName) -> Any | None:
        """Return the log of a table that exists; None if there is no such table."""
        path = self.path(name)
        if path is None:
            return self._from_catalog(session, name)
        log = jvm.log_at(session, path)
        return log if int(jvm.snapshot(session, log).version()) >= 0 else None

    def is_named(self, session: SparkSession, name: TableName) -> bool:
        """Return whether Spark's own catalog has a table of that name, whatever is left of it."""
        if len(name.namespace) != 1:
            raise StoreRefused(
                f"{name}: Spark's own catalog has tables of the form {name.store}.database.table",
                unchanged="nothing was changed",
            )
        return jvm.is_named(session, name)

    def _from_catalog(self, session: SparkSession, name: TableName) -> Any | None:
        if not self.is_named(session, name):
            return None
        log = jvm.log_of(session, name)
        if int(jvm.snapshot(session, log).version()) < 0:
            raise StoreRefused(
                f"{name} is in the catalog, but it is not a Delta table",
                unchanged="nothing was changed",
                next_step=f"CONVERT TO DELTA {self.sql(name)}, or name another table",
            )
        return log
