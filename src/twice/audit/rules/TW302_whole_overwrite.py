"""A windowed job overwrites the whole table.

The query is cut to one day (or hour, or month), and its result replaces everything: after the run the table holds
that day only. Running an old day again throws the newer ones away, and the result depends on which run came last.

A function of `foreachBatch` that overwrites does the same with every batch: only the last one's rows are left.

A full rebuild that reads everything and overwrites everything is fine, and so are staging tables that hold only
what is being loaded; those are not reported.

**Instead**, replace the window only:

    # Spark
    df.writeTo("mart.sales").overwritePartitions()
    df.write.format("delta").mode("overwrite").option("replaceWhere", f"sale_date = '{day}'").saveAsTable("mart.sales")
    -- SQL
    INSERT OVERWRITE TABLE mart.sales PARTITION (sale_date = '…') SELECT …
    BEGIN; DELETE FROM mart.sales WHERE sale_date = :day; INSERT INTO mart.sales SELECT …; COMMIT;
    # twice
    Table("lake.mart.sales", partition=Day("sale_date"), key=[…], write=Overwrite())
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write, same_table
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, is_staging, removed_before, was_done_before
from twice.audit.rules.windows import Window, dates_in, is_date, is_dynamic, is_given, window_of

SEVERITY = Severity.ERROR

# Tables that are meant to hold only the newest window.
_NEWEST = re.compile(
    r"(^|_)(latest|current|newest|today|todays|yesterday|recent|last|snapshot|full|dim)(_|$)|^dim", re.IGNORECASE
)

_NEWEST_STREAMED = re.compile(r"(^|_)(latest|current|newest|today|recent|last|snapshot|now|live)(_|$)", re.IGNORECASE)
# The batches of such a stream hold the whole result each time.
_COMPLETE = re.compile(r"outputMode\W+complete", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Look at every write that empties its whole target first."""
    for write in job.writes:
        window = replaces_all_by_part(job, write)
        if window is not None:
            yield finding(
                __name__,
                write.place,
                f"a run for one {window.value} leaves only its rows in {write.target.name or 'the table'}: "
                "running another day, or an old one again, throws the rest away",
                instead="overwrite the window only: overwritePartitions(), replaceWhere, INSERT OVERWRITE … PARTITION "
                "(…), or DELETE of the window and INSERT in one transaction",
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite())',
            )
        elif _replaces_all_by_batch(job, write):
            yield finding(
                __name__,
                write.place,
                f"each micro-batch replaces all of {write.target.name or 'the table'}: after it only the rows of the "
                "last batch are left",
                instead="merge the batch by key, or overwrite only the partitions that it holds whole",
                with_twice='Table("…", key=[…], write=Merge(version="…"))',
            )
        elif _replaces_all_by_turn(job, write):
            yield finding(
                __name__,
                write.place,
                f"each turn of the loop replaces all of {write.target.name}: after it only what the last input brought "
                "is left",
                instead="read all inputs and write once, or give each input a partition of its own to overwrite",
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite())',
            )


def _replaces_all_by_turn(job: Job, write: Write) -> bool:
    """Return whether each turn of a loop reads another input and overwrites one and the same target with it."""
    if not write.loop or write.mode is not Mode.OVERWRITE or write.query is None or write.partition:
        return False
    if "{" in write.target.name or not write.target.name or is_record(write.target) or is_staging(write.target):
        return False
    read = [source for query in write.query.walk() for source in query.sources if source.query is None]
    return len(read) == 1 and bool(_GIVEN_PATH.fullmatch(read[0].name)) and _is_of_turn(job, write, read[0].name[1:-1])


def _is_of_turn(job: Job, write: Write, name: str) -> bool:
    """Return whether a variable gets another value in each turn of the loop around a write."""
    given = re.compile(rf"\s*(for\b[^:]*\b{name}\b[^:]*\bin\b|{name}\s*=[^=])")
    depth = _indent(job.line(write.place.line))
    for number in range(write.place.line - 1, 0, -1):
        line = job.line(number)
        if given.match(line):
            return True
        if line.strip() and _indent(line) < depth:
            depth = _indent(line)
            if line.lstrip().startswith(("for ", "async for ", "while ", "def ")):
                return False
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_GIVEN_PATH = re.compile(r"\{\w+\}")


def _replaces_all_by_batch(job: Job, write: Write) -> bool:
    """Return whether foreachBatch overwrites a table with what one batch brings."""
    if not write.stream_batch_id or write.mode is not Mode.OVERWRITE or write.query is None or write.partition:
        return False
    if is_record(write.target) or is_staging(write.target) or _is_first_load(job, write) or dates_in(write.target):
        return False
    if _NEWEST_STREAMED.search(write.target.last) or _COMPLETE.search(job.text):
        return False
    reads_all = any(same_table(write.target.name, name) for name in write.sources)
    batch = any(source.kind == "stream" for query in write.query.walk() for source in query.sources)
    return batch and not reads_all


def replaces_all_by_part(job: Job, write: Write) -> Window | None:
    """Return the window that replaces everything that the target held, if a write does that."""
    if _holds_one_window(write) or _replaces_partitions(job, write) or not _empties(job, write):
        return None
    if any(same_table(write.target.name, name) for name in write.sources) or _is_first_load(job, write):
        return None
    if write.sources and all(name.startswith("@") for name in write.sources):
        return None  # a staged file of a day may well hold all rows as they are on that day
    window = window_of(write)
    return window if window is not None and window.closed and _stores(write, window) else None


def _holds_one_window(write: Write) -> bool:
    """Return whether the target is meant to hold only what is being written: staging, a report, a dated path."""
    if write.via == "pandas" and write.target.kind == "path":
        return True
    named = is_record(write.target) or is_staging(write.target) or bool(_NEWEST.search(write.target.last))
    return named or write.incremental or bool(dates_in(write.target))


def _replaces_partitions(job: Job, write: Write) -> bool:
    """Return whether partitions are named or may be: then it is TW303 that asks whether only those are replaced."""
    if write.partition and not write.or_replace:
        return True
    return write.api == "insertInto" or (write.via == "sql" and is_dynamic(job))


def _is_first_load(job: Job, write: Write) -> bool:
    """Return whether it only happens when the table is not there yet, and later runs merge into it."""
    if was_done_before(write.guarded_by) or write.conditional:
        return True
    others = [one for one in job.writes if one is not write and one.target.same(write.target)]
    return any(one.mode in {Mode.MERGE, Mode.UPSERT} and one.function == write.function for one in others)


def _empties(job: Job, write: Write) -> bool:
    if write.mode is Mode.OVERWRITE:
        return True
    if write.mode is not Mode.APPEND:
        return False
    before = removed_before(job, write)
    if before is None or before.loop or write.loop or write.function != before.function:
        return False
    return before.mode is Mode.TRUNCATE or (before.mode is Mode.DELETE and before.predicate is None)


def _stores(write: Write, window: Window) -> bool:
    """Return whether the written rows say which window they belong to: then the table is meant to hold several."""
    if not window.column or write.query is None:
        return True
    for query in (write.query, *write.query.branches):
        columns = query.columns
        if not columns or any(column.name == "*" or column.expr.kind == "star" for column in columns):
            return True
        if any(window.column in column.expr.columns() or column.name == window.column for column in columns):
            return True
        if any(is_given(column.expr) or is_date(column.expr) for column in columns):
            return True
    return False
