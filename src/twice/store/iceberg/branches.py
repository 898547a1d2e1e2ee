"""Lines of versions within one table: main, which readers see, and shadows that backfills build beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twice.content.java import items_of
from twice.store.iceberg import jvm

if TYPE_CHECKING:
    from twice.model.names import TableName

TOKEN = "twice.token"  # noqa: S105 - a fencing token, no secret
# Marks a table that was created for a shadow.
CREATED = "twice.created"
# Names the columns of a table that were added for a shadow.
ADDED = "twice.added"
# Names, in the summary of a snapshot, the shadow that it was made for.
SHADOW = "twice.shadow"
# Names, in the summary of a snapshot, the claim that staged it, and whether its files are a shadow's.
STAGED = "twice.staged"
ADOPTED = "twice.adopted"
# Marks a table in which no attempt has succeeded yet.
UNPUBLISHED = "twice.unpublished"

# The branches of shadows, and of the claims on them.
_BRANCHES = re.compile(r"twice_shadow_(?P<shadow>.+)|twice_(?P<claimant>[^_]+)_\d+")


@dataclass(frozen=True)
class Line:
    """One line of versions, with its own claims: a shadow does not see main's, and main does not see the shadow's."""

    shadow: str = ""

    @classmethod
    def of(cls, name: TableName) -> Line:
        """Return the line that a table's name refers to."""
        return cls(name.shadow)

    @property
    def name(self) -> str:
        """The branch that holds the line."""
        return f"twice_shadow_{self.shadow}" if self.shadow else "main"

    def head(self, table: Any) -> Any | None:
        """Return the newest snapshot; None if the line is empty or missing."""
        return jvm.snapshot_of(table, self.name) if self.shadow else table.currentSnapshot()

    def branch_of(self, token: int) -> str:
        """Name the branch of a claim."""
        return f"twice_{self.shadow}_{token}" if self.shadow else f"twice_{token}"

    def branch_tokens(self, table: Any) -> list[int]:
        """List the tokens of the branches that claims left, or hold now."""
        start = self.branch_of(0).removesuffix("0")
        names = [str(name) for name in items_of(table.refs().keySet())]
        return [int(name.removeprefix(start)) for name in names if re.fullmatch(re.escape(start) + r"\d+", name)]

    def mark(self, token: int) -> str:
        """Return a token's text, different from that of any other line: a shadow begins with main's versions."""
        return f"{self.shadow}:{token}" if self.shadow else str(token)

    def find_token(self, table: Any, token: int) -> str | None:
        """Return the version that a token published; None if there is none."""
        for snapshot in jvm.history(table, self.head(table)):
            if snapshot.summary().get(TOKEN) == self.mark(token):
                return str(snapshot.snapshotId())
        return None

    def key(self, name: str) -> str:
        """Name a property of the table that belongs to this line."""
        return f"{name}@{self.shadow}" if self.shadow else name

    def remembered(self, table: Any, name: str) -> str | None:
        """Return a property of the line; a shadow begins with main's."""
        for key in dict.fromkeys((self.key(name), name)):
            if (value := table.properties().get(key)) is not None:
                return str(value)
        return None

    def added(self, table: Any) -> set[str]:
        """Name the columns that this shadow writes, and that exist only for shadows."""
        return set(json.loads(table.properties().get(self.key(ADDED)) or "[]"))

    def token(self, table: Any) -> int:
        """Return the highest token that the line remembers."""
        return max([int(table.properties().get(self.key(TOKEN)) or 0), *self.branch_tokens(table)])


def shadows_at(table: Any) -> list[Line]:
    """List the shadows that added columns to a table."""
    properties = table.properties()
    if f"{ADDED}@" not in str(properties.toString()):  # one round trip instead of one for each property
        return []
    names = [str(name) for name in items_of(properties.keySet())]
    return [Line(name.removeprefix(f"{ADDED}@")) for name in names if name.startswith(f"{ADDED}@")]


def added_by_others(table: Any, line: Line) -> set[str]:
    """Name the columns of a table that shadows other than this one need."""
    return {name for other in shadows_at(table) if other != line for name in other.added(table)}


def shadows_in(table: Any) -> set[Line]:
    """List the shadows that have versions in a table, or are about to publish their first one."""
    found = (_BRANCHES.fullmatch(str(name)) for name in items_of(table.refs().keySet()))
    return {Line(match["shadow"] or match["claimant"]) for match in found if match}
