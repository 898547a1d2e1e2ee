"""Tables as contracts, and the ways to read them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from twice.errors import DefinitionError
from twice.model.durations import Duration
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.gates import Gate
from twice.model.grains import Partition
from twice.model.names import TableName, check_identifier, quote
from twice.model.outbox import Outbox
from twice.model.patterns import InsertOnly, Merge, Overwrite, Whole, WritePattern
from twice.model.scopes import Scope
from twice.model.windows import Window


@dataclass(frozen=True, eq=False)
class Table:
    """A contract: what a table holds, how it is cut, keyed, written, checked and owned.

    >>> from twice import Day, Overwrite, Table
    >>> orders = Table("lake.core.fct_orders", partition=Day("order_date"), key="order_id", write=Overwrite())
    >>> orders, orders.key
    (Table(lake.core.fct_orders), ('order_id',))

    `key` is one column, or a list of several.
    """

    name: str
    partition: Partition | None = None
    key: str | Sequence[str] = ()
    write: WritePattern | None = None
    schema: str | Mapping[str, str] | None = None
    dimensions: Sequence[str] = ()
    gates: Sequence[Gate] = ()
    lateness: Duration = field(default_factory=Duration)
    on_late: Literal["reopen", "ignore", "fail"] = "reopen"
    event_time: str | None = None
    valid: tuple[str, str] | None = None
    personal: Sequence[str] = ()
    mutable: Sequence[str] = ()
    loaded_at: bool = False
    outbox: Outbox | None = None
    owner: str = ""
    description: str = ""
    id: TableName = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", TableName.parse(self.name))
        object.__setattr__(self, "name", str(self.id))
        if isinstance(self.key, str):
            object.__setattr__(self, "key", (self.key,))
        for attribute in ("key", "dimensions", "personal", "mutable", "gates"):
            value = getattr(self, attribute)
            if isinstance(value, str):
                raise DefinitionError(f'{self.name}: {attribute}="{value}" must be a list: ["{value}"]')
            if not isinstance(value, Sequence):
                raise DefinitionError(f"{self.name}: {attribute}={value!r} must be a list: {attribute}=[…]")
            object.__setattr__(self, attribute, tuple(value))
        if self.partition is not None and not isinstance(self.partition, Partition):
            raise DefinitionError(f'{self.name}: partition needs a column: write Day("order_date")')
        self._check_times()
        self._check_columns()
        if isinstance(self.schema, Mapping):
            ddl = ", ".join(f"{quote(column)} {kind}" for column, kind in self.schema.items())
            object.__setattr__(self, "schema", ddl)
        self._check_keys()
        self._check_pattern()
        self._check_outbox()

    def _check_times(self) -> None:
        if not isinstance(self.lateness, Duration):
            raise DefinitionError(f"{self.name}: lateness= must be a duration such as days(3), got {self.lateness!r}")
        if self.on_late not in {"reopen", "ignore", "fail"}:
            raise DefinitionError(f'{self.name}: on_late={self.on_late!r}: write "reopen", "ignore" or "fail"')
        valid: Sequence[str] | None = self.valid
        if valid is not None and (isinstance(valid, str) or len(valid) != 2):
            raise DefinitionError(
                f'{self.name}: valid={self.valid!r} must name two columns: write valid=("valid_from", "valid_to")'
            )
        for gate in self.gates:
            if not isinstance(gate, Gate):
                raise DefinitionError(
                    f"{self.name}: gates= takes gates.not_null(…), gates.unique(…), …, "
                    f"or gates.check(…) around a function of your own, got {gate!r}"
                )

    def _check_columns(self) -> None:
        columns = [*self.partition_columns, *self.key, *self.personal, *self.mutable, *(self.valid or ())]
        if isinstance(self.write, Merge):
            columns.append(self.write.version)
            columns += [name for name in (self.write.tombstone, self.write.created) if name is not None]
        if self.event_time is not None:
            columns.append(self.event_time)
        if isinstance(self.schema, Mapping):
            columns += self.schema
        for column in columns:
            check_identifier(column, f"{self.name}: a column name")
            if column.lower() in FRAMEWORK_COLUMNS:
                raise DefinitionError(f"{self.name}: {column} belongs to twice and cannot be declared")

    def _check_keys(self) -> None:
        # Spark does not tell Email from email.
        for attribute, columns in (("key", self.key), ("dimensions", self.dimensions)):
            lower = [column.lower() for column in columns]
            if repeated := sorted({column for column in columns if lower.count(column.lower()) > 1}):
                raise DefinitionError(f"{self.name}: {attribute} names {', '.join(repeated)} more than once")
        mutable = {column.lower() for column in self.mutable}
        if changing := [column for column in self.key if column.lower() in mutable]:
            raise DefinitionError(
                f"{self.name}: {', '.join(changing)} is declared mutable and cannot be part of the "
                "business key: a changed value would make a second row. Use an identifier that never changes"
            )
        dimensions = {column.lower() for column in self.dimensions}
        if self.partition and self.partition.column.lower() in dimensions:
            raise DefinitionError(
                f"{self.name}: {self.partition.column} is the partition already: leave it out of dimensions="
            )

        if shown := [column for column in self.partition_columns if column in self.personal]:
            raise DefinitionError(
                f"{self.name}: {', '.join(shown)} is personal and cannot be the partition or a dimension: "
                "its values would be names of folders and scopes. Use a surrogate: key_of(…)"
            )

    def _check_pattern(self) -> None:
        if self.write is None:
            return
        if not isinstance(self.write, Overwrite | Merge | InsertOnly | Whole):
            raise DefinitionError(
                f"{self.name}: write= must be Overwrite(), Merge(version=…), InsertOnly() or Whole(), "
                f"got {self.write!r}"
            )
        if isinstance(self.write, Overwrite) and self.partition is None:
            raise DefinitionError(
                f"{self.name}: Overwrite() needs a partition, so that a run replaces its own scope only: "
                'add partition=Day("…"), or use Whole() to replace the whole table'
            )
        if isinstance(self.write, Whole) and self.partition is not None:
            raise DefinitionError(
                f"{self.name}: Whole() replaces the whole table: leave partition= out, or use Overwrite()"
            )
        if isinstance(self.write, Whole) and self.dimensions:
            raise DefinitionError(
                f"{self.name}: Whole() replaces the whole table: leave dimensions= out, or use Overwrite()"
            )
        if isinstance(self.write, Merge | InsertOnly) and not self.key:
            kind = type(self.write).__name__
            raise DefinitionError(f"{self.name}: {kind} needs the business key: add key=[…]")
        if not isinstance(self.write, Merge):
            return
        key = {column.lower() for column in self.key}
        roles = {"version": self.write.version, "tombstone": self.write.tombstone, "created": self.write.created}
        for role, column in roles.items():
            if column and column.lower() in key:
                raise DefinitionError(
                    f"{self.name}: {role} {column} is part of the key, so nothing would ever be replaced: "
                    "leave it out of key="
                )

    def _check_outbox(self) -> None:
        if self.outbox is None:
            return
        if not isinstance(self.outbox, Outbox):
            raise DefinitionError(f"{self.name}: outbox={self.outbox!r} must be an Outbox: write outbox=Outbox(to=…)")
        if not self.key:
            raise DefinitionError(f"{self.name}: an outbox needs the business key of its rows: add key=[…]")
        named = {column.lower() for column in self.outbox.columns}
        personal = {column.lower() for column in self.personal} - named
        if shown := [column for column in self.key if column.lower() in personal]:
            raise DefinitionError(
                f"{self.name}: every message of its outbox would carry {', '.join(shown)}, which is personal: use a "
                "surrogate as the key, key_of(…), or name it in Outbox(columns=[…])"
            )

    def __repr__(self) -> str:
        return f"Table({self.name})"

    def named(self, name: TableName) -> Table:
        """Return the same contract for a shadow of the table, about which no messages are sent."""
        found = copy.copy(self)
        object.__setattr__(found, "outbox", None)
        object.__setattr__(found, "id", name)
        object.__setattr__(found, "name", str(name))
        return found

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The physical partition columns: the time partition, then the dimensions."""
        time = (self.partition.column,) if self.partition else ()
        return (*time, *self.dimensions)

    def scope(self, scope: Scope) -> Scope:
        """Return the part of a run's scope that this table can see."""
        dimensions = {name: value for name, value in scope.dimensions if name in self.dimensions}
        return Scope.of(scope.window if self.partition else None, dimensions)

    def window(self, *, lookback: Duration | None = None) -> Read:
        """Read the run's window, widened backwards by `lookback`."""
        if self.partition is None and self.event_time is None:
            raise DefinitionError(
                f"{self.name} has no partition and no event_time=, so it cannot be cut to a window: "
                "declare one of them, or read it with .latest()"
            )
        if lookback is not None and not isinstance(lookback, Duration):
            raise DefinitionError(f"{self.name}.window: lookback= must be a duration such as days(7), got {lookback!r}")
        return Read(self, "window", lookback or Duration())

    def latest(self) -> Read:
        """Read the table as it is when the run claims its scope: the explicit current state."""
        return Read(self, "latest")

    def as_of(self, column: str) -> Read:
        """Read the row versions that were valid at some `column` of the other inputs, to join them with `as_of_join`.

        Where an input is cut to the window by `column`, which is its event time or its partition, the versions are cut
        to what the step sees of that input, lookback included; else all versions are read.
        """
        if self.valid is None:
            raise DefinitionError(
                f"{self.name}.as_of({column!r}) needs validity columns: declare "
                'valid=("valid_from", "valid_to") on the table, or read the current state with .latest()'
            )
        check_identifier(column, f"{self.name}.as_of: a column name")
        return Read(self, "as_of", at=column)


@dataclass(frozen=True, eq=False)
class Read:
    """One input of a step: a table and how much of it the step sees."""

    table: Table
    mode: Literal["window", "latest", "as_of"]
    lookback: Duration = field(default_factory=Duration)
    at: str | None = None
    # The inputs of the same step that are cut by the column `at`.
    facts: tuple[Read, ...] = ()

    def among(self, others: Iterable[Read]) -> Read:
        """Return the same read as one of a step that has other inputs, too."""
        if self.at is None:
            return self
        return replace(self, facts=tuple(other for other in others if other.is_cut_by(self.at)))

    def is_cut_by(self, column: str) -> bool:
        """Return whether the window decides which values of a column the step sees."""
        partition = self.table.partition.column if self.table.partition else None
        return self.mode == "window" and column.lower() in {
            name.lower() for name in (partition, self.table.event_time) if name is not None
        }

    @property
    def text(self) -> str:
        """The read in words, for contracts."""
        if self.mode == "latest":
            return f"{self.table.name} as of the run"
        if self.mode == "as_of":
            return f"{self.table.name} as of {self.at}"
        back = f", {self.lookback} back" if self.lookback else ""
        return f"{self.table.name} in the window{back}"

    def reach(self, lateness: Duration) -> str:
        """Return the read in words, and how far it looks for rows that come late."""
        table = self.table
        if self.mode != "window" or not lateness or table.partition is None:
            return self.text
        if table.event_time in (None, table.partition.column):
            return self.text
        return f"{self.text}, with late rows from the next {lateness} of {table.partition.column}"

    def cut(self, window: Window, lateness: Duration, zone: ZoneInfo) -> Cut:
        """Return the bounds of what the step sees for a run's window."""
        if self.mode == "as_of":
            return Cut(None, self._validity(window, lateness, zone))
        if self.mode == "latest":
            return Cut(None, None)
        start = self.lookback.before(window.start, zone) if self.lookback else window.start
        event = Window(start, window.end)
        if self.table.partition is None:  # a source that is cut by event time alone
            return Cut(None, event)
        if self.table.event_time is None:
            return Cut(self._whole_partitions(event, zone), None)
        until = lateness.after(window.end, zone) if lateness else window.end
        return Cut(self._whole_partitions(Window(start, until), zone), event)

    def _validity(self, window: Window, lateness: Duration, zone: ZoneInfo) -> Window | None:
        """Return the span of what the step sees of the column `at`; None where the window does not bound it."""
        assert self.at is not None  # noqa: S101 - an as-of read has a column
        spans = []
        for fact in self.facts:
            cut = fact.cut(window, lateness, zone)
            by_event = (fact.table.event_time or "").lower() == self.at.lower()
            spans.append(cut.event if by_event else cut.partitions)
        known = [span for span in spans if span is not None]
        if not known:
            return None
        return Window(min(span.start for span in known), max(span.end for span in known))

    def _whole_partitions(self, window: Window, zone: ZoneInfo) -> Window:
        assert self.table.partition is not None  # noqa: S101 - only called for partitioned tables
        grain = self.table.partition.grain
        last = grain.floor(window.end, zone)
        end: datetime = last if last == window.end else grain.next(last, zone)
        return Window(grain.floor(window.start, zone), end)


@dataclass(frozen=True)
class Cut:
    """What a read sees: whole partitions, and inside them rows by event time or validity."""

    partitions: Window | None
    event: Window | None
