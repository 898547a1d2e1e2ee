"""The partition is coarser than the schedule.

The job runs every hour (or every quarter of an hour), reads that hour, and overwrites the partition of the *day*:
each run throws the hours before it away. After the last run of the day only 23:00 is left, and running an hour again
leaves that hour alone. The same holds for a run that reads one day and overwrites its month.

An hourly job that rebuilds the whole day from all its hours is fine and not reported.

**Instead**, let the partition be as fine as the run, or read as much as is overwritten:

    INSERT OVERWRITE TABLE t PARTITION (dt = '{{ ds }}', hour = '{{ logical_date.hour }}') SELECT …
    INSERT OVERWRITE TABLE t PARTITION (dt = '{{ ds }}') SELECT … WHERE dt = '{{ ds }}'
    # twice
    Pipeline("views", grain=Hour) with Table("lake.mart.views", partition=Hour("viewed_hour"), write=Overwrite())
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Bound, Expr, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, removed_before
from twice.audit.rules.windows import dates_in, holes_in, is_given, names_in
from twice.audit.vocabulary import is_day_column

SEVERITY = Severity.ERROR

_DAY_SECONDS = 86_400
_WEEK_SECONDS = 7 * _DAY_SECONDS
_COARSE = re.compile(r"(^|_)(month|mth|mon|yyyymm|year|yr|yyyy|quarter|qtr|mm|ym)(_|$)|month|year", re.IGNORECASE)
_FINE = re.compile(
    r"(^|[_\W])(hour|hours|hr|hh|minute|min|quarter_hour|h)(_|\W|$)|data_interval|hour|%H|\bts\b|ts_nodash",
    re.IGNORECASE,
)
_TO_DAY = re.compile(r"\.date\(|%Y-?%m-?%d\b(?!.*%H)|\bds\b|ds_nodash|\bday\b", re.IGNORECASE)
_DAILY = re.compile(r"(^|[_\W])(ds|ds_nodash|day|date|dt|today)(_|\W|$)|date|%d", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Look at the overwrites of jobs that run more often than daily, or that get an hour as an argument."""
    every = job.orchestration.every
    yield from _days_in_months(job)
    if every is not None and every >= _DAY_SECONDS:
        return
    for write in job.writes:
        if is_record(write.target) or write.query is None:
            continue
        replaced = _replaced(job, write)
        if not replaced or any(_is_fine(text) for text in replaced):
            continue
        reads = [*_filtered(write.query), *(_stored(write.query) if every is None else ())]
        if all(_DAILY.search(text) for text in replaced) and any(_is_fine(text) for text in reads):
            before = removed_before(job, write) if write.mode is Mode.APPEND else None
            yield finding(
                __name__,
                before.place if before is not None else write.place,
                f"each run reads a part of the day and replaces the whole day of {write.target.name or 'the target'}: "
                "the runs before it are lost",
                instead="add the hour to the partition, or read the whole day that is overwritten",
                with_twice='Pipeline("…", grain=Hour) and Table("…", partition=Hour("…"), write=Overwrite())',
            )


def _days_in_months(job: Job) -> Iterator[Finding]:
    """Yield overwrites of a month or a year by a job that reads one day."""
    every = job.orchestration.every
    if every is not None and every > _WEEK_SECONDS:
        return
    for write in job.writes:
        names = [name for name, _ in write.partition]
        if write.mode is not Mode.OVERWRITE_PARTITIONS or write.query is None or is_record(write.target):
            continue
        if not names or not all(_COARSE.search(name) for name in names) or write.incremental:
            continue
        day = next((bound.column for filter_ in write.filters() for bound in bounds(filter_) if _is_one_day(bound)), "")
        if day:
            yield finding(
                __name__,
                write.place,
                f"each run reads one {day} and replaces the whole {names[-1]} of {write.target.name or 'the target'}: "
                "the days before it are lost",
                instead=f"add {day} to the partition, or read all of the {names[-1]} that is overwritten",
                with_twice='Pipeline("…", grain=Day) and Table("…", partition=Day("…"), write=Overwrite())',
            )


def _is_one_day(bound: Bound) -> bool:
    names = " ".join(names_in(bound.value))
    one = bound.op == "=" and is_day_column(bound.column) and not _COARSE.search(bound.column)
    return one and is_given(bound.value) and not _COARSE.search(names)


def _is_fine(text: str) -> bool:
    return bool(_FINE.search(text)) and not _TO_DAY.search(text)


def _replaced(job: Job, write: Write) -> list[str]:
    """Return the texts that say which part of the target is replaced."""
    if write.mode in {Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS}:
        static = [f"{name} {_written(value)}" for name, value in write.partition if value is not None]
        if static:
            return static
        if write.partition and write.mode is Mode.OVERWRITE_PARTITIONS:
            return [name for name, _ in write.partition]
        return [write.target.name, *dates] if (dates := dates_in(write.target)) else []
    predicate: Expr | None = write.predicate if write.mode is Mode.REPLACE_WHERE else None
    if write.mode is Mode.APPEND:
        before = removed_before(job, write)
        predicate = before.predicate if before is not None and before.mode is Mode.DELETE else None
    return [f"{bound.column} {_written(bound.value)}" for bound in bounds(predicate) if bound.op == "="]


def _written(value: Expr) -> str:
    """Return the names of a value as they stand in the code, not what they were computed from."""
    return " ".join(node.name for node in value.walk() if node.kind in {"param", "python"})


def _filtered(query: Query) -> Iterator[str]:
    """Yield what the rows are chosen by."""
    for below in query.walk():
        for bound in (bound for filter_ in below.filters for bound in bounds(filter_)):
            if next(names_in(bound.value), ""):
                yield f"{bound.column} {_written(bound.value)}"
        for source in below.sources:
            if source.kind == "path":
                yield from holes_in(source.name)


def _stored(query: Query) -> Iterator[str]:
    """Yield the columns that are set to something that the run is given."""
    for column in query.columns:
        if is_given(column.expr):
            yield column.name
