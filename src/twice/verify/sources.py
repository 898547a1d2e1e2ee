"""Copies of a pipeline's inputs: the same rows for every case, even if the tables themselves change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twice.store.protocol import Abilities

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession

    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window

# The store under which a case reads its inputs.
INPUTS = "twice_inputs"


@dataclass
class CopiedSource:
    """Parquet files by table; a case may swap them between two runs, as a source that is restated would."""

    abilities = Abilities("copied", writes=(), pins=False, history=False)
    # By table: the folder that holds its rows.
    folders: Mapping[str, str] = field(default_factory=dict)

    def exists(self, session: SparkSession, table: Table) -> bool:  # noqa: ARG002 - as every source is asked
        """Return whether the table was copied."""
        return table.name in self.folders

    def version(self, session: SparkSession, table: Table) -> str | None:  # noqa: ARG002
        """Name the copy."""
        return _named(self.folders[table.name]) if table.name in self.folders else None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:  # noqa: ARG002
        """Read the copy."""
        return session.read.parquet(self.folders[table.name])

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:  # noqa: ARG002
        """Name the copy for every partition: another copy may hold other rows of any of them."""
        return dict.fromkeys(target.partitions, _named(self.folders[target.table.name]))

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:  # noqa: ARG002
        """Name the copy."""
        return self.version(session, table)

    def release(self, session: SparkSession) -> None:
        """Hold nothing."""


def _named(folder: str) -> str:
    return hashlib.sha256(folder.encode()).hexdigest()[:16]
