"""Statements of Python that run at times only."""

from __future__ import annotations

import re

from twice.audit.model import Write

# A branch that asks whether there is anything to remove, or to write, leaves nothing behind.
_ANYTHING_THERE = re.compile(
    r"exist|has_table|is_?delta_?table|list_?tables|show tables|is_?file|is_?dir\b|\bin\b|count|\blen\(|empty|fetch"
    r"|any\(|\b(rows?|records?|data|df|ids?|keys?)\b|already|processed|loaded|not None|head\(|take\(|first\("
    r"|found|old_|prev",
    re.IGNORECASE,
)


def only_at_times(other: Write, write: Write) -> bool:
    """Return whether a statement stands in a branch that the write does not stand in: `if full_refresh: DELETE …`."""
    return any(
        branch not in write.branches and not _ANYTHING_THERE.search(branch.partition(":")[2])
        for branch in other.branches
    )


def either_way(one: Write, other: Write) -> bool:
    """Return whether two statements stand on both sides of one test: `if full: TRUNCATE … else: DELETE …`."""
    return bool(_tests(one, "") & _tests(other, " else")) or bool(_tests(one, " else") & _tests(other, ""))


def _tests(write: Write, side: str) -> set[str]:
    """Return the lines of the tests on one side of which a statement stands."""
    heads = [branch.partition(":")[0] for branch in write.branches]
    return {head.removesuffix(" else") for head in heads if head.endswith(" else") == bool(side)}
