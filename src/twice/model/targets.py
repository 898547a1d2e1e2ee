"""A table's share of a run: the scope it owns and the partitions that the scope is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from zoneinfo import ZoneInfo

from twice.model.grains import PartitionValue
from twice.model.scopes import Scope
from twice.model.tables import Table


@dataclass(frozen=True)
class Target:
    """One table, one scope, its partitions in order, and the zone that names them.

    `by_key`: rows are added by their keys alone, so what else the scope holds is not read.
    """

    table: Table
    scope: Scope
    partitions: tuple[Scope, ...]
    zone: ZoneInfo
    by_key: bool = False

    @classmethod
    def of(cls, table: Table, run: Scope, zone: ZoneInfo) -> Target:
        """Cut a run's scope into the table's partitions; a window off the grain is refused."""
        scope = table.scope(run)
        if table.partition is None or scope.window is None:
            return cls(table, scope, (scope,), zone)
        windows = table.partition.grain.partitions(scope.window, zone)
        return cls(table, scope, tuple(Scope(window, scope.dimensions) for window in windows), zone)

    @property
    def partition_column(self) -> str | None:
        """The column whose values are the target's partitions; None where the scope is the whole table."""
        return self.table.partition.column if self.table.partition and self.scope.window else None

    def value(self, partition: Scope) -> PartitionValue | None:
        """Return what the partition column holds in one of the partitions."""
        if self.table.partition is None or partition.window is None:
            return None
        return self.table.partition.grain.value(partition.window.start, self.zone)

    def bounds(self) -> tuple[PartitionValue, PartitionValue] | None:
        """Return the first partition value and the first one after the scope."""
        if self.table.partition is None or self.scope.window is None:
            return None
        grain, window = self.table.partition.grain, self.scope.window
        return grain.value(window.start, self.zone), grain.value(window.end, self.zone)

    def partition_of(self, value: object, dimensions: Sequence[object]) -> Scope | None:
        """Return the partition that a row's partition values belong to; None if it is not one of the target's."""
        wanted = dict(self.scope.dimensions)
        for name, found in zip(self.table.dimensions, dimensions, strict=True):
            if found is None or (name in wanted and str(found) != wanted[name]):
                return None
        if self.table.partition is None or self.scope.window is None:
            return self.partitions[0] if self.table.partition is None or value is not None else None
        if isinstance(value, datetime):
            value = value.astimezone(timezone.utc)
        return self._by_value.get(value)

    def place(self, values: Mapping[str, object]) -> Scope | None:
        """Return the partition that a file belongs to by its partition values; None if it is not one of ours."""
        if set(self.table.partition_columns) - set(values):
            return None
        value = values[self.table.partition.column] if self.table.partition else None
        return self.partition_of(value, [values[name] for name in self.table.dimensions])

    @cached_property
    def _by_value(self) -> dict[object, Scope]:
        return {self.value(partition): partition for partition in self.partitions}

    def name(self, partition: Scope) -> str:
        """Name a partition as the command line reads it."""
        if self.table.partition is None or partition.window is None:
            label = "whole table"
        else:
            label = self.table.partition.grain.label(partition.window.start, self.zone)
        return " ".join([label, *(f"{name}={value}" for name, value in partition.dimensions)])
