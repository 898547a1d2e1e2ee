"""A table is overwritten with what it held, and more.

`INSERT OVERWRITE t SELECT … FROM t UNION ALL batch` adds the batch once per run: the second run reads the result of
the first, and adds the batch to it again. With plain files it is worse: Spark deletes what it is still reading.

A query that leaves the batch's own window out of the old rows, or keeps one row per key of the union, gives the same
again and is not reported.

**Instead**:

    -- SQL
    INSERT OVERWRITE t SELECT … FROM t WHERE day <> :day UNION ALL SELECT … FROM batch WHERE day = :day
    INSERT OVERWRITE t PARTITION (day = '…') SELECT … FROM batch
    # Spark
    batch.writeTo("t").overwritePartitions()
    # twice
    Table("…", partition=Day("day"), key=[…], write=Overwrite()), or write=Merge(version="…") by key
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write, same_table
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, known_by
from twice.audit.rules.uniqueness import one_row_per
from twice.audit.rules.windows import same_value

SEVERITY = Severity.ERROR

_FILES = frozenset({"parquet", "csv", "json", "orc", "text", "avro"})
_UNKNOWN = re.compile(r"\{([^{}]+)\}")
_HOLDS = frozenset({"cache", "persist", "checkpoint", "localCheckpoint", "collect", "toPandas"})
_EXCLUDES = frozenset({"<>", "not", "not in", "is distinct", "<", "<=", "is"})


def check(job: Job) -> Iterator[Finding]:
    """Look at overwrites whose query reads the target."""
    for write in job.writes:
        if write.query is None or is_record(write.target) or not write.target.name or write.origin == "model":
            continue
        if write.mode not in {Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS}:
            continue
        if not any(same_table(write.target.name, name) for name in write.sources):
            continue
        if _empties_what_it_reads(write):
            yield finding(
                __name__,
                write.place,
                f"Spark empties {write.target.name} before it has read it: the run fails, and a second finds nothing",
                instead="write to another path and swap them, or keep the data in Delta or Iceberg, where an overwrite "
                "is one commit",
                with_twice='Table("…", key=[…], write=Whole()): what is read stays readable until the publish',
            )
            continue
        if _empties_database_table(job, write):
            yield finding(
                __name__,
                write.place,
                f"Spark empties {write.target.name} in the database before it has read it: the old rows are lost",
                instead="write the new rows to a staging table over JDBC, then DELETE and INSERT … SELECT in one "
                "transaction of the database",
                with_twice='Table("serving.…", key=[…], write=Overwrite()) with a SQL store',
            )
            continue
        union = _union_with_itself(write)
        if union is None or _settles(write, union):
            continue
        name = write.target.name
        yield finding(
            __name__,
            write.place,
            f"a second run reads {name} with the batch already in it and adds the batch once more",
            instead=f"leave the batch's window out of what is read from {name}, or overwrite only the batch's "
            "partitions, or MERGE by key",
            with_twice='Table("…", partition=Day("…"), key=[…], write=Overwrite()) or write=Merge(version="…")',
        )


def _empties_what_it_reads(write: Write) -> bool:
    """Return whether files are overwritten that the same query reads, in a format without versions."""
    return (
        write.via == "dataframe"
        and write.target.kind == "path"
        and write.format in _FILES
        and write.mode is Mode.OVERWRITE
    )


def _empties_database_table(job: Job, write: Write) -> bool:
    """Return whether a table is overwritten over JDBC that is read, only then, from the same database."""
    server = write.options.get("url", "")
    if write.via != "jdbc" or write.mode is not Mode.OVERWRITE or not server or "…" in server:
        return False
    if any(
        len(re.findall(rf"^\s*{re.escape(name)}\s*=[^=]", job.text, re.MULTILINE)) > 1
        for name in _UNKNOWN.findall(server)
    ):
        return False  # one name for several addresses
    if any(call.last in _HOLDS for call in job.calls):  # the rows may be kept before the table is emptied
        return False
    return write.query is not None and any(
        source.server == server and same_table(write.target.name, source.name)
        for query in write.query.walk()
        for source in query.sources
    )


def _union_with_itself(write: Write) -> Query | None:
    """Return the union of the target with something else."""
    if write.query is None:
        return None
    for query in write.query.walk():
        mine = [branch for branch in query.branches if _reads(branch, write.target.name)]
        if mine and (len(mine) < len(query.branches) or len(query.branches) == 1):  # one: the other is not known
            return query
    return None


def _reads(query: Query, name: str) -> bool:
    return any(same_table(name, table) for table in query.tables())


def _settles(write: Write, union: Query) -> bool:
    """Return whether the second run gives the same: the old rows leave the batch out, or one row per key is kept."""
    if not union.union_all and write.query is union:
        return True
    mine = [branch for branch in union.branches if _reads(branch, write.target.name)]
    if all(any(_excludes(filter_) for query in branch.walk() for filter_ in query.filters) for branch in mine):
        return True
    if known_by(write) is not None or any(source.how == "anti" for query in union.walk() for source in query.sources):
        return True
    if write.mode is Mode.OVERWRITE_PARTITIONS and not _same_partition(write, mine):
        return True
    outer = write.query
    return (
        outer is not None
        and outer is not union
        and any(_keeps_one(query) for query in outer.walk() if union in query.walk())
    )


def _excludes(filter_: Expr) -> bool:
    return any(part.kind == "op" and part.name in _EXCLUDES for part in filter_.conjuncts())


def _keeps_one(query: Query) -> bool:
    return query.distinct or query.distinct_on is not None or (one_row_per(query) is not None and not query.group_by)


def _same_partition(write: Write, branches: list[Query]) -> bool:
    """Return whether the old rows come from the partition that is overwritten."""
    static = [(name, value) for name, value in write.partition if value is not None]
    for branch in branches:
        filters = [filter_ for query in branch.walk() for filter_ in query.filters]
        for name, value in static:
            for filter_ in filters:
                if filter_.kind == "op" and filter_.name == "=" and name in filter_.columns():
                    return any(same_value(arg, value) for arg in filter_.args)
    return not static
