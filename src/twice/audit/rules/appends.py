"""Which appends double when they run twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from twice.audit.expressions import Expr, bounds
from twice.audit.model import Job, Mode, Target, Write, same_table
from twice.audit.queries import Query
from twice.audit.rules.branches import either_way, only_at_times
from twice.audit.rules.records import brings_data
from twice.audit.rules.removals import removes_files

_STAGING = re.compile(
    r"(^|[./_])(staging|stage|stg|stging|landing|work|wrk|tmp|temp|temporary|scratch|incoming|interim|intermediate|sandbox)([./_]|$)"
    r"|^(stg|staging|stage)[a-z0-9]",
    re.IGNORECASE,
)
# Tables that hold one row per run: they are meant to grow.
_RECORDS = re.compile(
    r"(^|[._])(control|watermarks?|checkpoints?|lineage|audits?|dq|data_?quality|quality_(checks?|results?|logs?|metrics|reports?|stats|runs?|issues|scores?|alerts?)|monitoring|notifications?"
    r"|job_?status|run_?status|etl_?status|load_?status|batch_?control|load_?history|run_?history|job_?history|heartbeats?)(_\w+)?$"
    r"|_(control|watermarks?|checkpoints?|audit|lineage|monitoring|run_stats|etl_stats|(?<!air_)(?<!water_)(?<!soil_)quality|quality_checks?)$"
    # What describes tables and loads; video_metadata is data.
    r"|(^|\.)metadata(_\w+)?$|(^|[._])(etl|elt|job|run|load|batch|table|pipeline|ingestion|file|schema)_metadata$"
    r"|(^|[._])(etl|elt|job|jobs|run|runs|pipeline|ingestion|ingest|load|batch)_?(log|logs|runs?|stats|status|metrics|audit|history)$"
    r"|(^|[._])logs?$|(^|\.)(control|etl_?control|audits?|logging|monitoring|etl_?logs?)\.\w+$",
    re.IGNORECASE,
)
_TABLE_THERE = re.compile(
    r"table_?exists|is_?delta_?table|has_table|database_?exists|_jsparkSession|listTables", re.IGNORECASE
)
_ANY_ROWS = re.compile(r"\.count\(\)|is_?empty|\.empty\b|\blen\(|\.take\(|\.head\(|\.limit\(", re.IGNORECASE)
_KNOWN = re.compile(r"exist|already|processed|loaded|done|target|prior|seen", re.IGNORECASE)
# Operators that load files into a table; method="APPEND" says no more than their default.
_TRANSFER = re.compile(r"To(Redshift|Snowflake)(Operator|Transfer)$")
# if cursor.fetchone() is None:   if not row:   if count == 0:
_IF_MISSING = re.compile(
    r"^\s*(if|elif)\s+(not\s+\w[\w.]*(\(|\s*:|\s+and\b)|.*\bis\s+None\b|.*==\s*0\b|len\(.*<\s*1\b)", re.IGNORECASE
)
# [row for row in rows if row["id"] not in known], ids - known
_NOT_AMONG = re.compile(r"\bif\b.*\bnot\s+in\s+\w|~.*\bisin\(|\.difference\(|\bset\(.*\)\s*-\s*\w", re.IGNORECASE)
_NEAR = 30
_HOLE = re.compile(r"(\{[^{}]*\}\.?)+")
_TOTALS = ("sum", "count", "avg", "min", "max", "count_distinct", "approx_count_distinct")
_REMOVES = frozenset(
    {
        Mode.DELETE, Mode.TRUNCATE, Mode.DROP, Mode.DROP_PARTITION, Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS,
        Mode.REPLACE_WHERE, Mode.CREATE,
    }
)  # fmt: skip


_EMPTIES = frozenset({Mode.DELETE, Mode.TRUNCATE, Mode.DROP, Mode.DROP_PARTITION})


def doubles(job: Job, write: Write, *, in_batches: bool = False) -> bool:
    """Return whether a second run adds the rows of an append again, and nothing in the file takes the first ones away.

    What a stream writes is left out; with `in_batches` it counts too.
    """
    return (
        write.mode is Mode.APPEND
        and (not is_record(write.target) or brings_data(write))
        and not records_run(job, write)
        and write.target.kind not in {"topic", "view", "variable"}
        and (in_batches or not (write.stream or write.checkpointed or write.stream_batch_id))
        and not (was_done_before(write.guarded_by) and not first_or_further(job, write))
        and not (write.conditional or "txnappid" in write.options)
        and not (write.target.expr is not None and (write.target.expr.has("clock") or write.target.expr.has("random")))
        and removed_before(job, write) is None
        and not removes_files(job, write)
        and not moves_rows(job, write)
        and not _is_swapped_in(job, write)
        and not write.looked_up
        and known_by(write, job) is None
        and not continues_target(job, write)
        and not _consumes_stream(job, write)
        and not {"inserted", "deleted"} & set(write.sources)  # a trigger reports one change
    )


def _is_swapped_in(job: Job, write: Write) -> bool:
    """Return whether a table is filled and then replaces another one: ALTER TABLE … RENAME, SWAP, EXCHANGE."""
    return any(
        _SWAPS.search(job.line(number))
        for other in job.later(write)
        if other.mode is Mode.ALTER and not other.api
        for number in range(other.place.line, other.place.last_line + 1)
    )


_SWAPS = re.compile(r"\b(rename|swap|exchange|switch|set\s+schema)\b", re.IGNORECASE)


def _consumes_stream(job: Job, write: Write) -> bool:
    """Return whether a write reads a stream of Snowflake, which moves on with the statement: a rerun finds it empty."""
    declared = job.remembered(_streams)
    return bool(declared) and any(name.rpartition(".")[2] in declared for name in write.sources)


def _streams(job: Job) -> set[str]:
    if "stream" not in job.lowered:
        return set()
    return {(match[1] or match[2]).lower().rpartition(".")[2] for match in _STREAM.finditer(job.text)}


_STREAM = re.compile(
    r"SYSTEM\$STREAM_HAS_DATA\s*\(\s*'([\w.]+)'|\bSTREAM\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.]+)\s+ON\b", re.IGNORECASE
)


def moves_rows(job: Job, write: Write) -> bool:
    """Return whether one statement deletes what it inserts elsewhere: WITH gone AS (DELETE … RETURNING *) INSERT …."""
    return any(other.mode is Mode.DELETE and other.place == write.place and other is not write for other in job.writes)


def is_implicit(write: Write) -> bool:
    """Return whether an append is only the default of what is called: COPY, a Glue sink, an operator."""
    if write.api.lower().startswith("insert_rows"):
        return False
    by_default = write.via == "glue" or (write.via == "copy" and write.api in {"COPY", "LOAD DATA", "BULK INSERT"})
    transfers = write.via == "operator" and bool(_TRANSFER.search(write.api))
    return by_default or transfers or not write.explicit_mode or write.api in {"to_sql", "to_gbq"}


def was_done_before(guard: str) -> bool:
    """Return whether a condition asks if the work was done, not only if there is a table or any row to write."""
    if not guard or _TABLE_THERE.search(guard):
        return False
    return not _ANY_ROWS.search(guard) or bool(_KNOWN.search(guard))


def first_or_further(job: Job, write: Write) -> bool:
    """Return whether a test only asks if there is a file to add to: the other side writes it for the first time."""
    return any(
        other.mode in {Mode.OVERWRITE, Mode.CREATE} and either_way(other, write)
        for other in (*job.earlier(write), *job.later(write))
    )


def is_record(target: Target) -> bool:
    """Return whether a table is temporary, or holds records of runs rather than data."""
    return target.is_scratch or _names_records(target.name if target.kind == "table" else target.last)


@lru_cache(maxsize=4096)
def _names_records(name: str) -> bool:
    return bool(_RECORDS.search(name))


def records_run(job: Job, write: Write) -> bool:
    """Return whether a row says that something ran: VALUES ('load_orders', CURRENT_TIMESTAMP, v_rows) in a SQL file."""
    if job.language != "sql" or not write.literal_rows or write.query is None or write.query.sources:
        return False
    values = [column.expr for one in (write.query, *write.query.branches) for column in one.columns]
    named = any(value.kind == "literal" and isinstance(value.value, str) for value in values)
    return named and any(value.has("clock") for value in values)


def is_staging(target: Target) -> bool:
    """Return whether a table only holds what is being loaded, by its name or schema."""
    return target.is_scratch or _names_staging(target.name)


@lru_cache(maxsize=4096)
def _names_staging(name: str) -> bool:
    return bool(_STAGING.search(name))


def deletes(write: Write) -> bool:
    """Return whether a statement deletes rows: DELETE, or a MERGE that does nothing else."""
    if write.mode is Mode.MERGE and write.merge is not None:
        return bool(write.merge.whens) and all(when.action == "delete" for when in write.merge.whens)
    return write.mode is Mode.DELETE


def removed_before(job: Job, write: Write) -> Write | None:
    """Return the earlier statement that removes what the last run wrote; a deletion of old rows is none."""
    at_times: list[Write] = []
    for other in job.earlier(write):
        if not (other.mode in _REMOVES or deletes(other)) or (other.mode is Mode.CREATE and not _makes_anew(other)):
            continue
        if other.mode is Mode.DELETE and _is_retention(other):
            continue
        if other.mode in {Mode.OVERWRITE, Mode.CREATE} and (other.guarded_by or other.conditional):
            continue
        if other.mode in _EMPTIES and only_at_times(other, write):
            if any(either_way(other, one) for one in at_times):
                return other
            at_times.append(other)
            continue
        if in_other_routine(job, other, write) and not _is_called(job, other.function):
            continue
        return other
    return _removed_by_name(job, write)


def in_other_routine(job: Job, one: Write, other: Write) -> bool:
    """Return whether two statements of a SQL file stand in the bodies of two procedures, functions or triggers."""
    return job.language == "sql" and one.function != other.function


def _is_called(job: Job, routine: str) -> bool:
    """Return whether a SQL file also names a routine where it does not make it: CALL, EXEC, a trigger."""
    return len(re.findall(rf"\b{re.escape(routine)}\b", job.text, re.IGNORECASE)) > 1 if routine else True


def _makes_anew(create: Write) -> bool:
    """A bare CREATE TABLE does not empty the table of the last run: it fails until it is removed."""
    return not create.if_not_exists and (create.or_replace or create.query is not None or create.target.temporary)


def _removed_by_name(job: Job, write: Write) -> Write | None:
    """Return a delete before, when neither says which table it is about: helpers that are handed the table."""
    if not _HOLE.fullmatch(write.target.name):
        return None
    for other in job.writes:
        if (
            other.order < write.order
            and other.mode in {Mode.DELETE, Mode.TRUNCATE}
            and _HOLE.fullmatch(other.target.name)
            and not only_at_times(other, write)
        ):
            return other
    return None


def committed_between(job: Job, before: Write, write: Write) -> bool:
    """Return whether a commit stands between two statements."""
    return any(before.order < one.order <= write.order and one.commit_between for one in job.writes)


def _is_retention(delete: Write) -> bool:
    found = list(bounds(delete.predicate))
    return (
        bool(found)
        and all(bound.op in {"<", "<="} for bound in found)
        and not any(bound.closed_range for bound in found)
    )


def known_by(write: Write, job: Job | None = None) -> Query | None:
    """Return the query that leaves out what the target already has: NOT EXISTS, NOT IN, an anti join.

    With `job` also one that was only asked before, and whose rows reach the write through Python.
    """
    found = _leaves_out(write.target, write.query) if write.query is not None else None
    if found is not None or job is None or job.language not in {"python", "notebook"}:
        return found
    written = {id(query) for other in job.writes if other.query is not None for query in other.query.walk()}
    for query in job.queries:
        if id(query) not in written and query.place.line <= write.place.line:
            found = _leaves_out(write.target, query)
            if found is not None:
                return found
            if _looked_up(job, write, query):
                return query
    return None


def _looked_up(job: Job, write: Write, query: Query) -> bool:
    """Return whether Python asks the target for a row, or for its keys, and inserts what is not there."""
    distance = write.place.line - query.place.line
    if distance > _NEAR or [same_table(write.target.name, name) for name in query.tables()] != [True]:
        return False
    if query.limit is not None or any(True for column in query.columns for _ in column.expr.calls("max", "min")):
        return False
    between = [job.line(number) for number in range(query.place.line, write.place.line + 1)]
    one_row = bool(query.filters) and any(_IF_MISSING.search(line) for line in between)
    return one_row or (not query.filters and any(_NOT_AMONG.search(line) for line in between))


def _leaves_out(target: Target, top: Query) -> Query | None:
    for query in top.walk():
        for source in query.sources:
            if source.how == "anti" and _reads(target, source.name, source.query):
                return query
            if source.how == "left" and _reads(target, source.name, source.query):
                alias = source.alias or source.name.rsplit(".", 1)[-1]
                tests = [node for filter_ in query.filters for node in filter_.walk()]
                if any(_is_null_test(node, alias) or _is_left_only(node) for node in tests):
                    return query
        for filter_ in query.filters:
            for inner in left_out(filter_):
                if _reads(target, "", inner):
                    return query
    return None


def _reads(target: Target, name: str, query: Query | None) -> bool:
    names = query.tables() if query is not None else (name,)
    return any(same_table(target.name, one) for one in names)


def left_out(expr: Expr) -> Iterator[Query]:
    """Yield the sub-queries under NOT EXISTS and NOT IN, which Snowflake's dialect writes `<> ALL (…)`."""
    for part in expr.conjuncts():
        if part.kind == "op" and (part.name == "not" or (part.name == "<>" and part.args[-1].name == "all")):
            if any(
                node.kind == "op" and node.name == "in" and any(True for _ in node.args[0].calls(*_TOTALS))
                for node in part.walk()
            ):
                continue  # a sum or a count that is not there yet says nothing about the row
            for node in part.walk():
                if node.query is not None:
                    yield node.query


def _is_null_test(expr: Expr, alias: str) -> bool:
    """Return whether it says `alias.column IS NULL`."""
    if expr.kind == "call" and expr.name in {"isnull", "is_null"}:
        return any(node.kind == "column" and node.table in {alias, ""} for node in expr.args)
    if expr.kind != "op" or expr.name != "is" or len(expr.args) != 2:
        return False
    column, what = expr.args
    return column.kind == "column" and column.table in {alias, ""} and what.kind == "literal" and what.value is None


def _is_left_only(expr: Expr) -> bool:
    """Return whether it asks the indicator of a merge of pandas for rows that have no partner."""
    return expr.kind == "op" and expr.name == "=" and any(arg.value == "left_only" for arg in expr.args)


def continues_target(job: Job, write: Write) -> bool:
    """Return whether a write takes only rows after the newest one of its own target."""
    later = (bound for filter_ in write.filters() for bound in bounds(filter_) if bound.op in {">", ">="})
    return any(is_newest_of_target(job, write, bound.value) for bound in later)


def is_newest_of_target(job: Job, write: Write, value: Expr) -> bool:
    """Return whether a value is the maximum of something in the table that is written."""
    for node in value.walk():
        if node.query is not None and any(same_table(write.target.name, one) for one in node.query.tables()):
            return True
        for origin in (origin for origin in node.origins if origin.kind == "watermark"):
            read = {use.detail for use in job.used("watermark") if use.place == origin.place and use.detail}
            if not read or any(same_table(write.target.name, name) for name in read):
                return True
    return False
