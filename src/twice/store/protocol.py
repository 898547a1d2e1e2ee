"""What the engine requires of every store.

A source can be read at a version. A store can be written, too, and keeps one promise: what `stage`
wrote stays invisible until `publish`, which is one atomic commit that carries the claim's token and
fails if the claim was fenced, or if another writer changed the scope since it was staged. A store
states in its `abilities` what it cannot promise, and the engine refuses that before anything is claimed.

The threads of a process share one store. What it keeps between calls is in `fingerprints.Fingerprints` and
`staged.OpenStagedRows`, which hold a lock, or in a dict that is only read and set by key, never walked. A session
belongs to one attempt and is handed to each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from twice.errors import StoreRefused
from twice.model.patterns import InsertOnly, Merge, Overwrite, Whole, WritePattern
from twice.model.scopes import Scope

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.model.names import TableName
    from twice.model.tables import Cut, Table
    from twice.model.targets import Target
    from twice.model.windows import Window


# The version of a table whose source has no versions.
UNVERSIONED = "unversioned"


@dataclass(frozen=True)
class Abilities:
    """What a store can promise.

    `writes`: the patterns it can publish; `instead` names a store for the others. `pins`: a read stays at
    its version while other runs publish; where it does not, the engine checks again before it publishes.
    `history`: earlier versions stay readable, so that a run can be undone. `side_by_side`: disjoint scopes
    of one table may be written at the same time; where not, a claim takes the whole table. `outbox`: a publish
    can write messages about the rows that it changes. `offsets`: the offsets of a stream that follows a table identify
    what was read; where not, the checkpoint lists the files that were. `counts_rows`: the store itself counts the rows
    that it staged, so that they need not be read again to know that each was written once.
    """

    kind: str
    writes: tuple[type[WritePattern], ...] = (Overwrite, Merge, InsertOnly, Whole)
    pins: bool = True
    history: bool = True
    side_by_side: bool = True
    instead: str = ""
    outbox: bool = False
    offsets: bool = False
    counts_rows: bool = False

    def require(self, table: Table) -> None:
        """Refuse a write pattern or an outbox that the store cannot keep the promise for."""
        if table.write is not None and not isinstance(table.write, self.writes):
            can = ", ".join(f"{pattern.__name__}()" for pattern in self.writes)
            raise StoreRefused(
                f"{table.name}: a {self.kind} store cannot {table.write.text}: "
                + (f"it can do {can}" if can else "it is read-only"),
                unchanged="nothing was changed",
                next_step=self.instead,
            )
        if table.outbox is not None and not self.outbox:
            raise StoreRefused(
                f"{table.name}: an outbox needs a table in Postgres, which commits rows and messages together",
                unchanged="nothing was changed",
                next_step="keep the table in Postgres, or declare an effect: @pipeline.effect(after=…)",
            )


@dataclass(frozen=True)
class Stray:
    """Staged rows that lie outside the scope: how many, where, and the files that hold them.

    `hint` names the values that the store cannot tell apart, if that may be the cause.
    """

    rows: int
    values: tuple[str, ...]
    files: tuple[str, ...]
    hint: str = ""


@dataclass
class StagedRows:
    """Rows of one claim, written but not published.

    `counted`: how many rows `stage` has written, by the store's own count; None where it does not count. `written`: how
    many rows were added, where the store counts them as it writes; by `stage_changes` every store does.
    """

    target: Target
    token: int
    base: str | None
    strays: list[Stray] = field(default_factory=list)
    counted: int | None = None
    written: int = 0


class Source(Protocol):
    """A place to read from."""

    @property
    def abilities(self) -> Abilities:
        """What the place can promise."""

    def exists(self, session: SparkSession, table: Table) -> bool:
        """Return whether the table exists."""

    def version(self, session: SparkSession, table: Table) -> str | None:
        """Return the version that readers see now; None if the table is empty or absent."""

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        """Read the table as of a version; None reads nothing, with the table's columns."""

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        """Fingerprint what each partition of the target holds in that version; an empty one is an empty text."""

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what a table without partitions holds of a window, by event time; None: it has no fingerprint."""

    def release(self, session: SparkSession) -> None:
        """Release what the reads of an attempt held open."""


@runtime_checkable
class Cutting(Protocol):
    """A source that cuts to the window itself, where Spark could not push the cut down exactly."""

    def read_cut(
        self,
        session: SparkSession,
        table: Table,
        version: str | None,
        cut: Cut,
        dimensions: Mapping[str, str],
        zone: ZoneInfo,
    ) -> DataFrame:
        """Read the rows in the cut, or more: the engine cuts again."""


@runtime_checkable
class Peeking(Protocol):
    """A source that may know without Spark what it holds now: None means that only Spark can find out."""

    def peek(self, table: Table) -> str | None:
        """Return the version that readers see now."""

    def peek_files(self, target: Target) -> Mapping[Scope, str] | None:
        """Fingerprint what each partition of the target holds now, as `files` does."""

    def peek_seen(self, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        """Fingerprint what a table without partitions holds of a window now, as `seen` does."""

    def peek_check(self, table: Table) -> bool | None:
        """Return True if a run could write the table as it is; what `check` refuses may also be raised."""


@runtime_checkable
class Grouping(Protocol):
    """A source that can hand whole partitions to tasks, so that what stays within one needs no shuffle."""

    def grouped(self, session: SparkSession) -> AbstractContextManager[None]:
        """Hand whole partitions to tasks in the queries of this session that are planned within the block."""


@runtime_checkable
class Namespacing(Protocol):
    """A store whose namespaces must exist before a table is created in them."""

    def create_namespace(self, name: str) -> None:
        """Create a namespace; one that exists stays as it is."""

    def drop_namespace(self, name: str) -> None:
        """Drop a namespace with all that it holds, if it exists."""


@runtime_checkable
class Streaming(Protocol):
    """A source that a stream can follow."""

    def follow(self, session: SparkSession, table: Table, options: Mapping[str, str]) -> DataFrame:
        """Read the rows that are added to a table, as a stream."""


class Store(Source, Protocol):
    """A destination that can stage, publish atomically, and fence."""

    def token(self, session: SparkSession, table: Table) -> int:
        """Return the highest token that the table remembers; 0 if it knows none."""

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:
        """List the tokens that have staged rows in the table now, at work or left over."""

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:
        """Return what a publish left with the table under `remember`."""

    def check(self, session: SparkSession, table: Table) -> None:
        """Refuse a live table that does not match the contract."""

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:
        """Create the table, or add new columns; refuse every other change of schema."""

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:
        """Stop a token for good and drop its staged rows; return the version that it published, if it already had.

        `own`: the caller holds the token and has stopped, so no trace of it is needed to keep it from publishing. A
        table that was created for attempts of which none succeeded is dropped with the last one, where the store can.
        """

    def open(self, session: SparkSession, target: Target, token: int) -> StagedRows:
        """Open staging, without rows: from here on the token can be fenced."""

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Stage these rows to replace the scope's."""

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        """Add rows to those that `stage` wrote."""

    def stage_changes(
        self, session: SparkSession, staged: StagedRows, changes: DataFrame, *, insert_only: bool, instead_of: str = ""
    ) -> None:
        """Stage an upsert of rows by the table's key.

        `instead_of`: rows that carry this mark in `_twice_window` are replaced by the given ones.
        """

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        """Read the scope as it would be after the publish."""

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:
        """Fingerprint what each partition of the scope would hold after the publish, as `files` does."""

    def stray_rows(self, session: SparkSession, staged: StagedRows, limit: int) -> list[Mapping[str, object]]:
        """Read a few of the staged rows that lie outside the scope."""

    def publish(
        self,
        session: SparkSession,
        staged: StagedRows,
        partitions: Sequence[Scope],
        notes: Mapping[str, str],
        remember: Mapping[str, str],
    ) -> str:
        """Make the staged partitions visible in one atomic commit; return the new version.

        `notes` go with the version, `remember` stays with the table.
        """

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:
        """Drop staged rows that change nothing; LeaseLost if they were fenced, Conflict if the scope has changed."""


@runtime_checkable
class Maintaining(Protocol):
    """A store whose tables collect small files and old versions."""

    def compact(self, session: SparkSession, table: Table) -> int:
        """Rewrite small files into large ones; return how many were rewritten."""

    def count_versions(self, session: SparkSession, table: Table) -> int:
        """Count the versions that can still be read."""

    def version_read(self, offsets: str) -> str | None:
        """Return the version up to which the offsets of a stream have read a table; None if they do not show it."""

    def committed_at(self, session: SparkSession, table: Table, version: str) -> datetime | None:
        """Return when a version was committed; None if it does not exist."""

    def expire(self, session: SparkSession, table: Table, older_than: datetime) -> int:
        """Expire versions that are no longer needed; return how many files went with them."""

    def remove_orphans(self, session: SparkSession, table: Table, now: datetime) -> int:
        """Remove files that no version refers to; return how many."""


@runtime_checkable
class Shadowing(Protocol):
    """A store that can rebuild a table next to the one that readers see, and put it in its place."""

    def shadow(self, name: TableName, mark: str) -> TableName:
        """Name the shadow of a table."""

    def fork(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Begin a shadow with what the table holds now; one that has begun stays as it is."""

    def adopt(self, session: SparkSession, staged: StagedRows, shadow: Table) -> None:
        """Stage what the shadow of the table holds of the scope."""

    def shadow_schema(self, session: SparkSession, target: Target) -> StructType:
        """Return the columns that a shadow brings; refused if it has lost one since it was built."""

    def drop_shadow(self, session: SparkSession, table: Table, shadow: Table) -> bool:
        """Remove a shadow, if it exists, and what only it held; True: `undo_shadow` is still needed."""

    def undo_shadow(self, session: SparkSession, table: Table, shadow: Table) -> None:
        """Remove what was added to the table itself, or the table if it was made for the shadow; no run writes it."""
