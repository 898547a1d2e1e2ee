"""Only rows after the target's newest one are read, and they overwrite whole partitions.

`WHERE updated_at > (SELECT MAX(updated_at) FROM t)` selects the new rows of the day; overwriting the day's partition
with them throws away the rows that earlier runs of the same day put there. The second run of a day finds few new
rows, or none, and the partition ends up with just those.

**Instead**, read whole partitions when whole partitions are written:

    … WHERE trip_date >= :start AND trip_date < :end          -- all rows of the partitions that are replaced
    … WHERE trip_date IN (SELECT DISTINCT trip_date FROM new_rows)
    # twice
    Table("lake.core.trips", partition=Day("trip_date"), key=[…], write=Overwrite(), lateness=days(3))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Bound, bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import is_newest_of_target, is_record
from twice.audit.vocabulary import is_day_column, is_instant_column

SEVERITY = Severity.ERROR

_CHANGES = re.compile(r"updat|modif|chang", re.IGNORECASE)


def check(job: Job) -> Iterator[Finding]:
    """Look at overwrites of partitions."""
    for write in job.writes:
        partitioned = write.mode is Mode.OVERWRITE_PARTITIONS or (write.mode is Mode.OVERWRITE and write.partition)
        if not partitioned or is_record(write.target) or write.query is None:
            continue
        bound = _watermark(job, write)
        if bound is not None:
            column = bound.column
            # dbt writes the statement that overwrites; what the author wrote is the filter.
            place = bound.place if job.dbt is not None and write.origin == "model" else write.place
            yield finding(
                __name__,
                place,
                f"a second run reads only rows with {column} after the newest in {write.target.name or 'the table'} "
                "and overwrites their whole partitions: the rows of the first run in them are lost",
                instead="select whole partitions by their own column, with bounds that the run is given",
                with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite(), lateness=days(…))',
            )


def _watermark(job: Job, write: Write) -> Bound | None:
    """Return the comparison with the target's newest value, unless it is one of whole partitions."""
    if write.query is None:
        return None
    partitions = {name for name, _ in write.partition} | set(job.dbt.partition_by if job.dbt is not None else ())
    if job.dbt is not None and job.dbt.partition_grain:  # the partition is a day or month of an instant
        partitions = {name for name in partitions if not is_instant_column(name)}
    # A row moves to another partition when it changes: no other column selects these partitions whole.
    moving = bool(write.partition) and all(_CHANGES.search(name) for name, _ in write.partition)
    for query in write.query.walk():
        for filter_ in query.filters:
            for bound in bounds(filter_):
                whole = is_day_column(bound.column) and not moving
                later = bound.op in {">", ">="} and bound.column not in partitions and not whole
                if later and not bound.cast_to_date and is_newest_of_target(job, write, bound.value):
                    return bound
    return None
