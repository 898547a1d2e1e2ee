"""The four ways to write a table. There is no append."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twice.errors import DefinitionError


@dataclass(frozen=True)
class Overwrite:
    """Replace the scope as a whole: its old rows are removed, the new ones added."""

    @property
    def text(self) -> str:
        """The pattern in words, for contracts."""
        return "overwrite the scope"


@dataclass(frozen=True)
class Merge:
    """Upsert on the business key; the highest `version` wins.

    `tombstone` names a boolean column that marks deleted rows: they are kept, so that an older
    version cannot bring them back. `created` names the column with the time at which the entity was
    created, on the version's clock: a row that was created after its key was deleted is another
    entity under a reused key, and is refused.
    """

    version: str
    tombstone: str | None = None
    created: str | None = None

    def __post_init__(self) -> None:
        if self.created and not self.tombstone:
            raise DefinitionError(
                f"Merge(created={self.created!r}) tells a used key from a row that comes back after it was deleted: "
                "name the column that marks deleted rows, tombstone=…"
            )

    @property
    def text(self) -> str:
        """The pattern in words, for contracts."""
        deleted = f", deleted where {self.tombstone}" if self.tombstone else ""
        reused = f", no key again that is {self.created} later" if self.created else ""
        return f"merge on the key, newest {self.version} wins{deleted}{reused}"


@dataclass(frozen=True)
class InsertOnly:
    """Write a key once: repeated equal content is skipped.

    Other content for a known key fails the run, or is left out and counted with
    `on_conflict="keep"`.
    """

    on_conflict: Literal["fail", "keep"] = "fail"

    def __post_init__(self) -> None:
        if self.on_conflict not in {"fail", "keep"}:
            raise DefinitionError(f'InsertOnly(on_conflict={self.on_conflict!r}): write "fail" or "keep"')

    @property
    def text(self) -> str:
        """The pattern in words, for contracts."""
        return f"insert each key once, other content: {self.on_conflict}"


@dataclass(frozen=True)
class Whole:
    """Replace the whole table; a window older than the published one is not written."""

    @property
    def text(self) -> str:
        """The pattern in words, for contracts."""
        return "replace the whole table"


WritePattern = Overwrite | Merge | InsertOnly | Whole
