"""Rows are matched by a time or a floating-point number.

A change time or load time in the merge key makes every new version a new row: the table collects versions instead of
updating them. Two systems rarely agree on fractions of a second, and a double read twice from text need not be equal
to itself: then nothing matches, and each run inserts everything again.

A date or a version number may be part of a key and is not reported, and neither is an upsert (ON CONFLICT) on a
unique key that holds the time of a measurement.

**Instead**, match by what identifies the row, and use the time to decide which version is newer:

    -- SQL
    ON t.order_id = s.order_id
    WHEN MATCHED AND s.updated_at > t.updated_at THEN UPDATE SET …
    # twice
    Table("…", key=["order_id"], write=Merge(version="updated_at"))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.merging import Pair, merges, pairs
from twice.audit.vocabulary import is_arrival_column, is_day_column, is_instant_column

SEVERITY = Severity.ERROR

_CHANGES = re.compile(
    r"^_*(\w+_)?(updated|modified|changed|last_modified|last_updated|last_update|last_changed|last_seen|loaded|load|ingested|ingestion"
    r"|inserted|processed|synced|refreshed|extracted|received|created_or_updated)_*(at|on|ts|time|timestamp|datetime|dttm|utc)?(_\w+)?$"
    r"|^(updatedat|modifiedat|lastmodified|lastupdated|modifieddate|updateddate|loadedat|loadtimestamp|etl_\w*(ts|time|at))$",
    re.IGNORECASE,
)
_FLOATING = re.compile(
    r"^(\w+_)?(price|amount|rate|ratio|latitude|longitude|lat|lon|lng|score|weight|temperature|cost|revenue)$",
    re.IGNORECASE,
)


def check(job: Job) -> Iterator[Finding]:
    """Look at the columns by which a merge finds its rows."""
    for write in merges(job):
        keys = pairs(write)
        for pair in keys:
            why = _why(pair, alone=len(keys) == 1, by_merge=write.merge is not None and not write.merge.conflict)
            if why:
                yield finding(
                    __name__,
                    write.place,
                    f"rows of {write.target.name or 'the table'} are matched by {pair.target}, {why}",
                    instead=f"match by the row's own key and take {pair.target} into the condition of WHEN MATCHED",
                    with_twice='Table("…", key=[…], write=Merge(version="…"))',
                )
                break


def _why(pair: Pair, *, alone: bool, by_merge: bool) -> str:
    name = pair.target
    if is_day_column(name) or is_day_column(pair.source):
        return ""
    if _CHANGES.match(name) or is_arrival_column(name):
        return (
            "which differs between versions of the same row: a second run with newer values inserts instead of updating"
        )
    if is_instant_column(name) and (alone or by_merge):
        return (
            "a moment: if its fractions or its time zone differ in the second run, nothing matches and all is inserted"
        )
    if _FLOATING.match(name):
        return "a number that need not be equal to itself after reading it again: the second run inserts it once more"
    return ""
