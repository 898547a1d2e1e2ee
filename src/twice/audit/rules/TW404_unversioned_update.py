"""The last writer wins, also when it brings older rows.

`WHEN MATCHED THEN UPDATE` without asking which row is newer lets an old day that is run again put its old values over
newer ones: after a backfill of March the table says what was true in March. Reported where the source is cut to a
window or carries a change time, so that an older run can bring older rows; a complete source, and totals keyed by
their own day, are fine. That a hash differs says that a row changed, not which of the two is newer.

**Instead**:

    -- SQL
    WHEN MATCHED AND s.updated_at > t.updated_at THEN UPDATE SET …
    ON CONFLICT (id) DO UPDATE SET … WHERE t.updated_at < EXCLUDED.updated_at
    # Delta
    .whenMatchedUpdateAll(condition="s.updated_at > t.updated_at")
    # twice
    Table("…", key=["id"], write=Merge(version="updated_at"))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, When, Write
from twice.audit.places import Place
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.merging import leaves, merges, pairs, source_of
from twice.audit.rules.TW310_relative_update import relative
from twice.audit.rules.windows import window_of
from twice.audit.vocabulary import is_audit_column, is_day_column

SEVERITY = Severity.WARNING

_VERSION = re.compile(
    r"^(\w+_)?(updated|modified|changed|last_modified|last_updated|last_update|last_changed|update|modification|change|event|source)_*"
    r"(at|on|ts|time|timestamp|date|datetime|dt|utc)(_\w+)?$|^(\w+_)?(version|version_no|version_number|revision|lsn|scn|sequence_?(no|number)?"
    r"|seq|rev|row_version|offset|updatedat|modifiedat|changedat|modifieddate|updateddate|lastmodified|lastupdated)$",
    re.IGNORECASE,
)


def check(job: Job) -> Iterator[Finding]:
    """Look at every update of matched rows."""
    for write in merges(job):
        when = _unguarded(write)
        version = _version(job, write) if when is not None else ""
        if when is not None and version and not any(True for _ in relative(write)):
            column = version if _VERSION.match(version) else "updated_at"
            yield finding(
                __name__,
                _place(write, when),
                f"an older run that is repeated puts old values over newer ones in {write.target.name or 'the table'}, "
                f"because the update does not ask which {column} is newer",
                instead=f"WHEN MATCHED AND s.{column} > t.{column} THEN UPDATE …, or DO UPDATE … WHERE t.{column} < "
                f"EXCLUDED.{column}",
                with_twice=f'Table("…", key=[…], write=Merge(version="{column}"))',
            )


def _place(write: Write, when: When) -> Place:
    """Return where rows are matched: the ON of the merge, or else the WHEN, or the first column that it sets."""
    on = write.merge.on if write.merge is not None else None
    if on is not None and on.place.line >= write.place.line:
        return on.place
    first = when.assignments[0][1].place if when.assignments else write.place
    return max(write.place, when.place if when.place.line > write.place.line else first)


def _unguarded(write: Write) -> When | None:
    """Return the update of matched rows that asks for nothing, unless the merge also removes what the source lacks."""
    if write.merge is None or any(when.by_source for when in write.merge.whens):
        return None
    for when in write.merge.whens:
        if when.matched and when.action == "update":
            if _closes(when):
                return None
            return when if when.condition is None or not _compares_versions(write, when) else None
    return None


_CLOSING = re.compile(
    r"^(is_?|row_?)?(current|active|latest|valid|expired|deleted|closed)(_?(flag|ind|row|record|yn))?$|^(end|expir\w*|close\w*|effective_?(to|end)"
    r"|valid_?(to|until)|row_?end|eff_?end|dw_?end|inactive)_?\w*$|^\w*_(end|to|until|expired)_?(date|dt|ts|at|time|timestamp|datetime)?$",
    re.IGNORECASE,
)


def _closes(when: When) -> bool:
    """Return whether an update only ends the current version of a row, so that a new one can follow: SCD type 2."""
    names = [name.rsplit(".", 1)[-1] for name, _ in when.assignments]
    return (
        bool(names)
        and all(_CLOSING.match(name) or is_audit_column(name) for name in names)
        and any(_CLOSING.match(name) for name in names)
    )


def _compares_versions(write: Write, when: When) -> bool:
    """Return whether the condition asks which of two rows is newer; that they differ is not enough."""
    if when.condition is None or write.merge is None:
        return False
    for node in when.condition.walk():
        if node.kind == "op" and node.name in {"<", "<=", ">", ">="} and len(node.columns()) >= 1:
            return True
    return False


def _version(job: Job, write: Write) -> str:
    """Return the version column that could decide, or the window's name; nothing if every run brings the same rows."""
    keys = {pair.target for pair in pairs(write)} | {pair.source for pair in pairs(write)} | set(write.key)
    if write.stream_batch_id or write.stream:  # a stream brings its batches in order
        return ""
    if not keys or write.literal_rows or any(is_day_column(key) for key in keys):
        return ""
    window = window_of(write)
    if window is not None and window.column in keys:
        return ""
    query = source_of(job, write)
    if query is not None and query.group_by and window is None:
        return ""
    named = next((name for name in _columns(write) if _VERSION.match(name) and name not in keys), "")
    if named:
        return named
    by_feed = any(leaf.kind == "path" for leaf in leaves(query))
    return window.value if window is not None else "version" if by_feed else ""


def _columns(write: Write) -> Iterator[str]:
    """Yield the columns that are written or ordered by; one that is set to the clock is not a version."""
    for when in write.merge.whens if write.merge is not None else ():
        for name, value in when.assignments:
            if not value.has("clock"):
                yield name.rsplit(".", 1)[-1]
    if write.query is not None:
        for query in write.query.walk():
            for column in query.columns:
                if not column.expr.has("clock"):
                    yield column.name
            for order in query.order_by:
                yield from order.expr.columns()
            yield from _numbered_by(query)


def _numbered_by(query: Query) -> Iterator[str]:
    """Yield the columns by which windows are ordered: row_number() over (… order by updated_at desc)."""
    for top in query.expressions():
        for node in top.walk():
            yield from (name for order in node.order_by for name in order.expr.columns())
