"""What a table, or a partition of it, held when it was read: by content, by its files, or by its version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["digest", "files", "seen", "version", "run", "unknown"]
# The prefix of a fingerprint of files that a source cannot compare; the rest is unique.
INCOMPARABLE = "unknown:"


@dataclass(frozen=True)
class Content:
    """One thing that was read, as the ledger keeps it: a kind and a text that is equal for equal content.

    `digest`: rows that twice wrote. `files`: the files of a partition that it did not write; no text: there were none.
    `seen`: what a table without partitions held of a window. `version`: a version of a whole table. `run`: the scope
    of a run, where the table does not show it. `unknown`: rows that their source cannot compare.

    >>> Content.read("files:").is_empty, Content.digest("0-0-0-a1").is_empty, Content.digest("3-f-e-a1").rows
    (True, True, 3)
    """

    kind: Kind
    value: str

    @classmethod
    def digest(cls, digest: str) -> Content:
        """Return the content of rows by their digest."""
        return cls("digest", digest)

    @classmethod
    def files(cls, fingerprint: str) -> Content:
        """Return the content of a partition by its files; an empty fingerprint: there are none."""
        return cls("files", fingerprint)

    @classmethod
    def read(cls, text: str) -> Content:
        """Read what `text` gives."""
        kind, _, value = text.partition(":")
        return cls(kind, value)  # type: ignore[arg-type]  # the ledger holds what `text` gave

    @staticmethod
    def is_digest(text: str, digest: str) -> bool:
        """Return whether a text of the ledger is of this digest: called so often that no object is created for it."""
        return text == f"digest:{digest}"

    @cached_property
    def text(self) -> str:
        """The form that the ledger keeps."""
        return f"{self.kind}:{self.value}"

    @property
    def is_known(self) -> bool:
        """Whether it can be compared with anything."""
        return self.kind != "unknown" and not self.value.startswith(INCOMPARABLE)

    @property
    def is_empty(self) -> bool:
        """Whether it is known that there were no rows."""
        return not self.value or self.rows == 0

    @property
    def rows(self) -> int | None:
        """How many rows there were; None where that is not known."""
        if self.kind == "digest":
            return int(self.value.partition("-")[0])
        return 0 if self.kind == "files" and not self.value else None

    def may_be(self, now: Content) -> bool:
        """Return whether nothing shows that it differs now: what no source can compare may be the same."""
        return self == now or not (self.is_known or now.is_known)

    def differs_from(self, rows: int, digest: str) -> bool:
        """Return whether it is known that rows of another digest took its place; no rows are like no files."""
        if self == Content.digest(digest) or self.rows is None:
            return False
        return rows > 0 or self.rows > 0

    def has_other_files(self, live: str) -> bool:
        """Return whether files of another fingerprint took its place; no rows are like no files."""
        return self != Content.files(live) and not (self.is_empty and not live)
