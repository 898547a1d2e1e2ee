"""The data files of a table, by partition, and the fingerprints that name them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target


class DataFile(Protocol):
    """A file that belongs to one partition; `identity` names its live rows."""

    @property
    def partition(self) -> Mapping[str, object]: ...

    @property
    def identity(self) -> str: ...


@dataclass(frozen=True)
class LiveFile:
    """A data file as a table's metadata lists it."""

    partition: Mapping[str, object]
    identity: str


AnyFile = TypeVar("AnyFile", bound=DataFile)


def by_partition(target: Target, files: Iterable[AnyFile]) -> dict[Scope, list[AnyFile]]:
    """Sort files into the target's partitions; those outside are left out."""
    found: dict[Scope, list[AnyFile]] = {partition: [] for partition in target.partitions}
    for file in files:
        if (partition := target.place(file.partition)) is not None:
            found[partition].append(file)
    return found


def fingerprints(target: Target, files: Iterable[DataFile]) -> dict[Scope, str]:
    """Fingerprint each of the target's partitions."""
    return {partition: fingerprint(inside) for partition, inside in by_partition(target, files).items()}


def fingerprint(files: Iterable[DataFile]) -> str:
    """Return a short fingerprint of a set of data files; an empty text for an empty set."""
    identities = sorted(file.identity for file in files)
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()[:32] if identities else ""
