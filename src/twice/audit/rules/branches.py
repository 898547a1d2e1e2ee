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
    """Tell whether a statement stands in a branch that the write does not stand in: `if full_refresh: DELETE …`."""
    return any(
        branch not in write.branches and not _ANYTHING_THERE.search(branch.partition(":")[2])
        for branch in other.branches
    )
