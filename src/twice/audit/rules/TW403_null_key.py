"""A merge key can be null, and null equals nothing.

`ON t.campaign_id = s.campaign_id` does not match two nulls: a row without the key is "not matched" in every run, and
is inserted again each time. Keys become null by a left join, by NULLIF or TRY_CAST, by CASE … ELSE NULL, or because
they come out of JSON. Only keys that this file itself makes nullable are reported, or for which the same statement has
a COALESCE elsewhere; `unique_key` of a dbt model is such a key, too.

**Instead**:

    -- SQL
    ON t.campaign_id IS NOT DISTINCT FROM s.campaign_id          -- <=> in Spark, EQUAL_NULL() in Snowflake
    USING (SELECT COALESCE(campaign_id, -1) AS campaign_id, …)   -- a name for "none", on both sides
    WHERE campaign_id IS NOT NULL                                -- or leave such rows out
    # twice
    Table("…", key=["campaign_id"], …): null keys are refused before anything is written
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, When, Write
from twice.audit.queries import Query
from twice.audit.rules import finding
from twice.audit.rules.merging import made_here, merges, pairs

SEVERITY = Severity.WARNING

_MAKES_NULL = frozenset(
    {
        "nullif", "try_cast", "trycast", "safe_cast", "get_json_object", "json_extract", "json_extract_scalar",
        "json_value", "try_to_number", "try_to_date", "try_to_timestamp", "try_parse_json", "regexp_extract",
    }
)  # fmt: skip
_FILLS = frozenset(
    {"coalesce", "ifnull", "nvl", "isnull", "zeroifnull", "md5", "sha1", "sha2", "concat_ws", "hash", "xxhash64"}
)
_STANDS_IN = ("coalesce", "ifnull", "nvl", "isnull")
# What is null as soon as one part of it is.
_HANDS_ON = ("cast", "concat", "lower", "upper", "trim", "ltrim", "rtrim")


def check(job: Job) -> Iterator[Finding]:
    """Look at the key columns of every merge that inserts."""
    for write in (*merges(job), *_models(job)):
        whens = write.merge.whens if write.merge is not None else ()
        if write.query is None or not any(_inserts(when) for when in whens):
            continue
        for pair in pairs(write):
            why = "" if pair.null_safe else _nullable(job, write, pair.source) or _declared(job, pair.target)
            if why:
                yield finding(
                    __name__,
                    write.place,
                    f"{pair.source} is null when {why}, and null matches nothing: every run inserts such rows into "
                    f"{write.target.name or 'the table'} again",
                    instead=f"compare null-safely (IS NOT DISTINCT FROM, <=>), or COALESCE {pair.source} to a name for "
                    "none, or leave these rows out",
                    with_twice='Table("…", key=[…], …): null keys are refused',
                )
                break


def _models(job: Job) -> Iterator[Write]:
    """Yield the dbt model that finds its rows by a unique_key, whether it merges or deletes them first."""
    yield from (write for write in job.writes if write.origin == "model" and write.incremental and write.merge)


def _declared(job: Job, column: str) -> str:
    """Return the reason if the file itself creates the column as one that may be null."""
    if "null" not in job.lowered:
        return ""
    found = re.search(
        rf"^\s*\"?{re.escape(column)}\"?\s+\w+(\s*\([\d, ]+\))?\s+NULL\b", job.text, re.IGNORECASE | re.MULTILINE
    )
    return f"it is unknown (line {job.text.count(chr(10), 0, found.end()) + 1} lets it be null)" if found else ""


def _inserts(when: When) -> bool:
    return when.action == "insert" and not when.matched


def _nullable(job: Job, write: Write, name: str) -> str:
    """Return why a column of the source can be null, following it down; nothing if the file does not show it."""
    query = write.query
    for _ in range(20):
        if query is None or query.branches or _required(query, name):
            return ""
        column = query.column(name)
        expr = column.expr if column is not None and any(column is one for one in query.columns) else None
        if expr is not None and expr.kind != "column":
            return _why(query, expr, name)
        if _has_stand_in(write, query, expr, name):
            return "it is not known (another value stands in for it in the same statement)"
        table, name = (expr.table, expr.name) if expr is not None else ("", name)
        outer = _outer_source(query, table, name)
        if outer:
            return outer
        inner = [
            source.query
            for source in query.sources
            if source.query is not None and (not table or table in {source.alias, source.name})
        ]
        query = inner[0] if inner else _filled_here(job, write, query)
    return ""


def _filled_here(job: Job, write: Write, query: Query) -> Query | None:
    """Return the query by which the file itself has filled the only table that a query reads."""
    if len(query.sources) != 1:
        return None
    made = made_here(job, write, query.sources[0].name)
    if made is None or made.query is query:
        return None
    # UPDATE work SET key = -1 WHERE key IS NULL, or a DELETE of such rows.
    repaired = any(one.order < write.order and one.mode in {Mode.UPDATE, Mode.DELETE} for one in job.later(made))
    return None if repaired else made.query


def _why(query: Query, expr: Expr, name: str) -> str:
    if any(True for _ in expr.calls(*_FILLS)):
        return ""
    made = next(expr.calls(*_MAKES_NULL), None)
    if made is not None:
        return f"{made.name.upper()} gives none"
    for part in _parts(query, expr):
        if _ends_in_null(part):
            return "its CASE ends in null"
        known = query.column(part.name) if part.kind == "column" and part.name != name else None
        if known is not None and query.language == "dataframe" and _ends_in_null(known.expr):
            return f"the CASE of {part.name} ends in null"
        outer = _outer_source(query, part.table, part.name) if part.kind == "column" and part.table else ""
        if outer:
            return outer
    return ""


def _parts(query: Query, expr: Expr) -> Iterator[Expr]:
    """Yield what makes an expression null if it is null itself; CONCAT does so everywhere in Spark alone."""
    joins = expr.kind == "op" and expr.name == "||"
    hands_on = expr.kind == "call" and expr.name.startswith(_HANDS_ON)
    if joins or (hands_on and (not expr.name.startswith("concat") or query.language == "dataframe")):
        for arg in expr.args:
            yield from _parts(query, arg)
    else:
        yield expr


def _ends_in_null(expr: Expr) -> bool:
    """Return whether it is CASE … ELSE NULL, or whether its last case gives null."""
    last = expr.args[-1] if expr.kind == "case" and expr.args else None
    return last is not None and last.kind == "literal" and last.value is None


def _has_stand_in(write: Write, query: Query, column: Expr | None, name: str) -> bool:
    """Return whether the statement itself expects a key to be null: COALESCE(region, 'all') beside region."""
    inserted = [
        value
        for when in (write.merge.whens if write.merge is not None and query is write.query else ())
        for _, value in when.assignments
    ]
    table = write.merge.source_alias if write.merge is not None else ""
    beside = [one.expr for one in query.columns if column is not None]
    return any(_stands_in(one, {table}, name) for one in inserted) or any(
        column is not None and _stands_in(one, {column.table}, column.name) for one in beside
    )


def _stands_in(expr: Expr, tables: set[str], name: str) -> bool:
    """Return whether it is a COALESCE of a column; inside of a hash or a text it says nothing about the column."""
    while expr.kind == "call" and expr.name.startswith("cast") and expr.args:
        expr = expr.args[0]
    if expr.kind != "call" or expr.name not in _STANDS_IN or len(expr.args) < 2:
        return False
    first = expr.args[0]
    return first.kind == "column" and first.name == name and first.table in tables


def _outer_source(query: Query, table: str, name: str) -> str:
    """Return the reason if the column comes from the right side of a left join."""
    for source in query.sources:
        alias = source.alias or source.name.rsplit(".", 1)[-1]
        if source.how not in {"left", "full"}:
            continue
        if table and table in {alias, source.name}:
            return f"the left join finds no {alias}"
        if (
            not table
            and source.query is not None
            and _gives(source.query, name)
            and not _is_join_column(source.on, name)
        ):
            return "the left join finds no row"
    return ""


def _gives(query: Query, name: str) -> bool:
    return any(column.name == name for column in query.columns)


def _is_join_column(on: Expr | None, name: str) -> bool:
    return on is not None and name in on.columns()


def _required(query: Query, name: str) -> bool:
    """Return whether a filter asks for the column to be there."""
    for filter_ in query.filters:
        for part in filter_.conjuncts():
            if part.kind == "op" and part.name == "not" and name in part.columns():
                return True
            if (
                part.kind == "op"
                and part.name in {"=", ">", ">=", "<", "<=", "in", "between", "<>"}
                and name in part.columns()
            ):
                return True
            if part.kind == "call" and part.name in {"isnotnull", "is_not_null"} and name in part.columns():
                return True
    return False
