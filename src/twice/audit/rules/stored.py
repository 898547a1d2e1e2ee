"""What a job stores for good: the queries that reach a lasting table, and the columns that a write fills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.expressions import Expr
from twice.audit.findings import Severity
from twice.audit.model import Job, Mode, Use, Write, same_table
from twice.audit.queries import Query

_PUTS_ROWS = frozenset(
    {
        Mode.APPEND,
        Mode.INSERT_NEW,
        Mode.UPSERT,
        Mode.MERGE,
        Mode.OVERWRITE,
        Mode.OVERWRITE_PARTITIONS,
        Mode.REPLACE_WHERE,
        Mode.UPDATE,
        Mode.CREATE,
    }
)
_KEEPS_KEYS = frozenset({Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW})


@dataclass(frozen=True)
class Stored:
    """A column that a write fills; `only_new` when existing rows keep their value."""

    column: str
    expr: Expr
    only_new: bool = False


def lasting(write: Write) -> bool:
    """Return whether a write puts rows into a table that outlives the run, and is not a log."""
    return write.mode in _PUTS_ROWS and not write.target.is_scratch and not _plain_view(write)


def _plain_view(write: Write) -> bool:
    """A view stores nothing; what dbt calls one is a table as soon as the project says so."""
    return write.target.kind == "view" and write.origin != "model"


def outlives(job: Job, write: Write) -> Write | None:
    """Return the write through which rows last: itself, or the one that reads its temporary table."""
    if lasting(write):
        return write
    if write.query is None or write.mode not in _PUTS_ROWS or _is_log(write):
        return None
    for other in job.writes:
        if other is not write and other.query is not None and lasting(other):
            named = any(same_table(name, write.target.name) for name in other.sources)
            if named or any(query is write.query for query in other.query.walk()):
                return other
    return None


def _is_log(write: Write) -> bool:
    return not write.target.temporary and write.target.kind != "view" and bool(_LOG.search(write.target.last))


_LOG = re.compile(r"log|audit|error|history|run", re.IGNORECASE)


def feeding(job: Job) -> list[tuple[Query, Write]]:
    """Return every query whose rows or columns reach a lasting table; tests inside a filter are left out."""
    return job.remembered(_feeding)


def _feeding(job: Job) -> list[tuple[Query, Write]]:
    found: list[tuple[Query, Write]] = []
    seen: set[int] = set()
    for write in job.writes:
        if write.query is None or outlives(job, write) is None:
            continue
        stack = [write.query]
        while stack:
            query = stack.pop()
            if id(query) in seen:
                continue
            seen.add(id(query))
            found.append((query, write))
            stack.extend(query.branches)
            stack.extend(source.query for source in query.sources if source.query is not None)
            for column in query.columns:
                stack.extend(column.expr.subqueries)
    return found


def stored_columns(write: Write) -> Iterator[Stored]:
    """Yield the columns that a write fills, by their names in the target."""
    for name, expr in write.assignments:
        yield Stored(name.lower(), expr)
    if write.merge is not None:
        updated = {name for when in write.merge.whens if when.matched for name, _ in when.assignments}
        for when in write.merge.whens:
            for name, expr in when.assignments:
                yield Stored(name.lower(), expr, only_new=not when.matched and name not in updated)
    if write.query is not None:
        yield from _selected(write, write.query)


def _selected(write: Write, query: Query) -> Iterator[Stored]:
    """Yield the columns that the query gives to the target, also through `SELECT *`."""
    new_only = write.mode in _KEEPS_KEYS
    while query.branches:
        query = query.branches[0]
    # The columns of a MERGE name what is inserted, not what its source selects.
    names = () if write.mode is Mode.MERGE else write.columns
    have: set[str] = set()
    for one in (query, *_through_stars(query)):
        for position, column in enumerate(one.columns):
            name = names[position].lower() if one is query and position < len(names) else column.name
            if name == "*" or name in have:
                continue
            have.add(name)
            yield Stored(name, column.expr, only_new=new_only and column.name not in write.key)


def _through_stars(query: Query) -> Iterator[Query]:
    """Yield the queries whose columns pass through `SELECT *` above them."""
    seen = {id(query)}
    stack = [query]
    while stack:
        one = stack.pop()
        if one.columns and not any(column.name == "*" for column in one.columns):
            continue
        for source in one.sources:
            if source.query is not None and id(source.query) not in seen:
                seen.add(id(source.query))
                yield source.query
                stack.append(source.query)


def resolved(query: Query, name: str) -> Expr | None:
    """Return how a column is computed, wherever below `query` it gets its name."""
    found = query.definition(name)
    if found is not None and found.kind != "column":
        return found
    for one in query.walk():
        for column in one.columns:
            if column.name == name.lower() and column.expr.kind not in {"column", "star"}:
                return column.expr
    return found


def once(uses: Iterator[Use]) -> Iterator[Use]:
    """Yield each place only once, with the use that matters most."""
    best: dict[tuple[int, int], Use] = {}
    for use in uses:
        at = (use.place.line, use.place.column)
        if at not in best or _rank(use) < _rank(best[at]):
            best[at] = use
    lines: set[tuple[int, int]] = set()
    for use in sorted(best.values(), key=lambda one: one.place):
        where = (use.place.line, id(use.query) if use.query is not None else id(use.write))
        if where not in lines:
            lines.add(where)
            yield use


def decides_call(job: Job, use: Use) -> bool:
    """Return whether a value is passed to a procedure that works on data (no log, no cleanup), or that fetches it."""
    if job.language == "sql":
        return use.context == "argument" and not _ASIDE.search(use.detail)
    last = use.detail.rpartition(".")[2]
    fetches = any(_FETCHES.match(part) for part in use.detail.split(".")[-2:])
    return use.context == "argument" and fetches and not _ASIDE.search(last)


# Functions of other files that bring data, by their names or by those of their files.
_FETCHES = re.compile(r"(fetch|extract|download|pull|ingest|scrape|crawl|backfill|import)_[a-z]\w*$", re.IGNORECASE)


_ASIDE = re.compile(
    r"(?<!cata)log|audit|status|start|begin|(^|_)end|finish|monitor|track|notif|alert|send|(?<!e)mail|error|metric|stats"
    r"|expire|drop|purge|clean"
    r"|archiv|vacuum|retention|remove|delete|orphan|partition|rollback|cherrypick|snapshot|watermark|control",
    re.IGNORECASE,
)


def declares(write: Write) -> bool:
    """Return whether a statement only declares a table: its defaults are not yet values."""
    return write.mode is Mode.CREATE and write.query is None


def filled(job: Job, create: Write, column: str) -> Write | None:
    """Return the append that leaves a column of a declared table to its default, again on each run."""
    for fill in job.later(create):
        if fill.mode is Mode.APPEND and fill.columns and column not in fill.columns:
            return fill
    return None


def refilled(job: Job, create: Write, column: str) -> Write | None:
    """Return the insert that fills a declared table again after it was emptied, and leaves a column to its default."""
    for fill in job.later(create):
        emptied = job.cleared_by(fill)
        if not _fills_all(job, fill) or column in fill.columns or emptied is None:
            continue
        if emptied is not create or _made_again(job, create, fill):
            return fill
    return None


def _fills_all(job: Job, fill: Write) -> bool:
    """Return whether a write brings rows that were not there: an append, or a merge into a table without rows."""
    return fill.mode is Mode.APPEND or (fill.mode in _KEEPS_KEYS and emptied_whole(job, fill))


def emptied_whole(job: Job, write: Write) -> bool:
    """Return whether the job takes all rows out of a table before it fills it, so that none of them keeps its key."""
    return any(
        other.mode in {Mode.DROP, Mode.TRUNCATE}
        or (other.mode is Mode.DELETE and (other.predicate is None or _always(other.predicate)))
        for other in job.earlier(write)
    )


def updates_too(job: Job, write: Write, column: str) -> bool:
    """Return whether a merge fills a column also of existing rows, as one that updates all columns does."""
    options = job.dbt.options if job.dbt is not None and write.origin == "model" else {}
    named = options.get("merge_update_columns")
    kept = options.get("merge_exclude_columns", "")
    if (named is not None and f"'{column}'" not in named.lower()) or f"'{column}'" in kept.lower():
        return False
    return any(
        when.matched and when.action == "update" and (when.all_columns or column in dict(when.assignments))
        for when in (write.merge.whens if write.merge is not None else ())
    )


def _always(predicate: Expr) -> bool:
    """Return whether a condition is made of constants only: DELETE … WHERE 1 = 1."""
    return all(node.kind in {"literal", "op"} for node in predicate.walk())


def _made_again(job: Job, create: Write, fill: Write) -> bool:
    """Return whether a table is dropped, made and filled from other tables on each run, in no given order."""
    query = fill.query
    if query is None or not query.sources or query.order_by:
        return False
    return create.or_replace or any(one.mode is Mode.DROP for one in job.earlier(create))


def names_a_run(column: str) -> bool:
    """Return whether a column holds the run, the batch or the job rather than the row: run_id, etl_batch_id."""
    return bool(_RUN.search(column))


_RUN = re.compile(
    r"(run|batch|job|load|execution|exec|process|trace|correlation|request|etl|audit|log|pipeline|dag)_?(run_?)?(id|uuid|guid|key|no|number)$",
    re.IGNORECASE,
)


def given(value: Expr) -> bool:
    """Return whether a bound comes from outside; a clock, a watermark and remembered state are other findings."""
    nodes = list(value.walk())
    origins = [origin for node in nodes for origin in node.origins]
    if any(origin.kind in _MOVES and not origin.fallback for origin in origins):
        return False
    if any(node.kind in {"query", "column"} for node in nodes):
        return False
    return any(origin.kind == "parameter" for origin in origins) or any(node.kind == "param" for node in nodes)


_MOVES = frozenset({"clock", "watermark", "state"})


def as_written(job: Job, use: Use) -> str:
    """Return the call as the file writes it: `GETDATE()`, where the model says CURRENT_TIMESTAMP."""
    if "." in use.name:
        return use.name
    line = job.line(use.place.line)
    start = use.place.column - 1
    found = _WORD.match(line[start:]) if not _WORD.match(line[max(0, start - 1) : start]) else None
    if found and _UNSTEADY.search(found[0]):
        return found[0]
    other = (
        _OTHER_NAMES.search(line) if use.name.startswith("CURRENT_") and use.name.lower() not in line.lower() else None
    )
    return other[0] if other else use.name


_WORD = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
_OTHER_NAMES = re.compile(r"\b(sysdate(time)?|systimestamp|get(utc)?date|now|curdate|today)\b(\(\))?", re.IGNORECASE)
_UNSTEADY = re.compile(
    r"_date|_time|[a-z]date|[a-z]time|now|today|uuid|guid|newid|rand|nextval|increasing_id|zipwith|getmtime|listdir|glob",
    re.IGNORECASE,
)

_WEIGHT = ("target", "partition", "filter", "predicate", "key", "join", "input", "stored", "audit")


def _rank(use: Use) -> int:
    return _WEIGHT.index(use.context) if use.context in _WEIGHT else len(_WEIGHT)


def evidence(job: Job, use: Use, default: Severity) -> Severity | None:
    """Weigh a use by what becomes of it: the default if it reaches a write, less or nothing if none is seen."""
    if use.write is not None:
        if use.context == "target" and use.write.target.temporary:  # whatever it is called, nothing of it stays
            return None
        changes = use.write.mode in {Mode.DELETE, Mode.DROP_PARTITION} and not use.write.target.is_scratch
        return default if changes or outlives(job, use.write) is not None else None
    if use.context in {"target", "partition", "stored", "key", "predicate"}:
        return default
    if any(lasting(write) for write in job.writes):
        return min(default, Severity.WARNING) if use.context == "join" else default
    if use.query is not None and use.query.language == "dataframe":
        return min(default, Severity.WARNING)
    return None
