"""Duplicates are removed by another key than the merge matches on.

One row per (order, change time) still holds an order several times when the merge matches by order alone: the merge
fails, or an arbitrary version wins. One row per mail address, merged by customer, both drops customers and keeps
duplicates.

A merge key that only names the partition too is not reported.

**Instead**, use the merge key in both places:

    -- SQL
    ON t.order_id = s.order_id, over ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY changed_at DESC, …) = 1
    # Spark
    KEY = ["order_id"]: Window.partitionBy(*KEY), and the merge condition made of KEY
    # twice
    Table("…", key=["order_id"], write=Merge(version="changed_at")): there is one key
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.merging import merges, pairs, source_of
from twice.audit.rules.uniqueness import one_row_per

SEVERITY = Severity.ERROR

_TWICE = "a key may still come twice, and the second run may take another of its rows"
_LOST = "rows that differ in the rest of the key are thrown away, and the second run may keep another of them"

# A column of the merge key that tells rows apart, rather than names the partition that they lie in.
_IDENTIFIES = re.compile(r"(_id|_no|_nr|_number|_key|_code|_line|_seq|id|no)$", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Compare the key of the last de-duplication with that of the merge."""
    for write in merges(job):
        query = source_of(job, write)
        kept = one_row_per(query)
        if not kept or write.mode is Mode.INSERT_NEW or any("{" in name for name in kept):
            continue  # a list of keys that is passed in is not known
        keys = pairs(write)
        if any(_is_computed(write, pair.source) for pair in keys):
            continue  # the key is made after the de-duplication, from what it kept
        matched = {pair.source for pair in keys} | {pair.target for pair in keys}
        further = kept - matched
        lost = (
            {pair.source for pair in keys if pair.source not in kept and _IDENTIFIES.search(pair.source)}
            if kept < matched
            else ()
        )
        if matched and (further or lost) and not (query is not None and query.group_by):
            said = ", ".join(sorted(kept))
            key = ", ".join(dict.fromkeys(pair.target for pair in keys))
            yield finding(
                __name__,
                write.place,
                f"the source keeps one row per ({said}), but rows of {write.target.name or 'the table'} are matched by "
                f"({key}): {_TWICE if further else _LOST}",
                instead=f"remove duplicates by ({key}), ordered by a version without ties",
                with_twice='Table("…", key=[…], write=Merge(version="…"))',
            )


def _is_computed(write: Write, column: str) -> bool:
    """Return whether a key column is put together in the source, rather than handed on."""
    found = write.query.column(column) if write.query is not None else None
    made = write.query.definition(column) if write.query is not None else None
    if made is not None and made.kind == "window":
        return True
    return found is not None and bool(found.expr.args) and not found.expr.name.startswith("cast")
