"""What a MERGE or upsert matches on, and what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.expressions import Expr
from twice.audit.model import Job, Mode, Write
from twice.audit.queries import Query, Source
from twice.audit.rules.uniqueness import one_row_per

# Sources that are known to repeat keys: feeds as they were delivered.
_RAW = re.compile(
    r"(^|[./_-])(raw|landing|landed|bronze|cdc|changes?|change_?log|changelog|events?|feeds?|incoming|updates?|deltas?|deltafeed"
    r"|increments?|incremental|kafka|queue|inbox|delivered|deliveries|log|logs|staging|stage|stg|imports?|imported)([./_-]|$)"
    r"|^(stg|stage|staging|raw|src)[A-Z_]|changes$|updates$|events$|[a-z](landing|staging|import)$"
    r"|(^|[./_-])(excel|csv|file|flat|bulk|xlsx?)_?import",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Pair:
    """One equality of a merge condition: the target's column and the source's."""

    target: str
    source: str
    null_safe: bool
    place: Expr


def merges(job: Job) -> Iterator[Write]:
    """Yield the merges and upserts of a file that match rows by a key."""
    for write in job.writes:
        if write.merge is None or write.mode not in {Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW}:
            continue
        if write.origin == "model" or write.target.temporary or _matches_nothing(write):
            continue
        yield write


def _matches_nothing(write: Write) -> bool:
    """Return whether it is `ON FALSE`: a way to replace a table in one statement."""
    on = write.merge.on if write.merge is not None else None
    if on is None:
        return False
    if on.kind == "literal" and (on.value is False or str(on.name).lower() == "false"):
        return True
    sides = [str(arg.name or arg.value) for arg in on.args if arg.kind == "literal"]
    return on.kind == "op" and on.name == "=" and len(sides) == 2 and sides[0] != sides[1]


def checks_key(job: Job) -> bool:
    """Return whether the file looks for keys that come more than once."""
    return job.remembered(_checks_key)


def _checks_key(job: Job) -> bool:
    return job.checks_uniqueness or any(
        _counts_more_than_one(filter_) for query, _ in job.all_queries() for filter_ in query.filters
    )


def _counts_more_than_one(expr: Expr) -> bool:
    for part in expr.conjuncts():
        if (
            part.kind == "op"
            and part.name in {">", ">="}
            and len(part.args) == 2
            and str(part.args[1].value) in {"1", "2"}
        ):
            left = part.args[0]
            if left.kind in {"column", "call"} and left.name in {"count", "cnt", "n", "c"}:
                return True
    return False


def pairs(write: Write) -> list[Pair]:
    """Return the equalities by which source rows find theirs."""
    merge = write.merge
    if merge is None:
        return []
    if merge.on is None:
        return [
            Pair(column, column, null_safe=False, place=Expr("column", column, place=write.place))
            for column in write.key
        ]
    found = []
    for part in merge.on.conjuncts():
        if part.kind != "op" or part.name not in {"=", "<=>"} or len(part.args) != 2:
            continue
        left, right = (_bare(arg) for arg in part.args)
        if left.kind != "column" or right.kind != "column":
            continue
        mine, theirs = (right, left) if _is_source(write, left) or _is_target(write, right) else (left, right)
        found.append(Pair(mine.name, theirs.name, null_safe=part.name == "<=>", place=part))
    return found


def _bare(expr: Expr) -> Expr:
    while expr.kind == "call" and expr.name.startswith(("cast", "lower", "upper", "trim")) and expr.args:
        expr = expr.args[0]
    return expr


def _is_source(write: Write, expr: Expr) -> bool:
    return bool(expr.table) and write.merge is not None and expr.table == write.merge.source_alias


def _is_target(write: Write, expr: Expr) -> bool:
    names = {write.target.name, write.target.last, write.merge.target_alias if write.merge is not None else ""}
    return bool(expr.table) and expr.table in names


def key_text(write: Write) -> str:
    """Return the merge key for a sentence."""
    return ", ".join(dict.fromkeys(pair.target for pair in pairs(write))) or ", ".join(write.key) or "its key"


def source_of(job: Job, write: Write) -> Query | None:
    """Return the query that is merged; a table that the same file has just filled counts as its query."""
    query = write.query
    for _ in range(20):
        if query is None or query.branches or one_row_per(query) is not None:
            return query
        first = next((source for source in query.sources if source.how == "from"), None)
        if first is None:
            return query
        if first.query is not None:
            query = first.query
            continue
        made = made_here(job, write, first.name)
        if made is None or made.query is None or made.query is query:
            return query
        query = made.query
    return query


def made_here(job: Job, write: Write, name: str) -> Write | None:
    """Return the statement of the same file that filled a table which a merge reads."""
    for other in reversed(job.writes_to(name)):
        if other.order < write.order and other.query is not None and other.mode not in {Mode.DELETE, Mode.UPDATE}:
            return other
    return None


def leaves(query: Query | None) -> Iterator[Source]:
    """Yield the tables and paths under a query's FROM, not those of its sub-queries in conditions."""
    stack = [query] if query is not None else []
    for _ in range(200):
        if not stack:
            return
        one = stack.pop()
        stack.extend(one.branches)
        for source in one.sources:
            if source.query is not None:
                stack.append(source.query)
            elif source.how not in {"anti", "semi"}:
                yield source


def raw_source(query: Query | None) -> str:
    """Return the name of a source that delivers a key more than once: files, streams, raw and staging tables."""
    first = next(leaves(query), None)
    if first is None:
        return ""
    if first.kind in {"path", "stream"}:
        return first.name or "the files"
    return first.name if _RAW.search(first.name) else ""
