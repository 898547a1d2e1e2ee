"""Repairs that are mechanical: what they are, and when they can only mean the same, or better."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from twice.audit.expressions import Bound, bounds
from twice.audit.findings import Edit, Finding, Fix
from twice.audit.model import Job, Mode, Parameter, Write
from twice.audit.queries import Query

_SQL_CLOCK = re.compile(r"\b(CURRENT_DATE(\s*\(\s*\))?|TODAY\s*\(\s*\))", re.IGNORECASE)
_PYTHON_CLOCK = re.compile(r"\b(F|f|functions)\.current_date\(\)|\b(datetime\.)?date\.today\(\)")
_CREATE = re.compile(r"\bCREATE\s+((?:EXTERNAL|TRANSIENT)\s+)?TABLE\s+(?!IF\b)", re.IGNORECASE)
_DROP = re.compile(r"\bDROP\s+TABLE\s+(?!IF\b)", re.IGNORECASE)
# One end of a window: what such a parameter says is not the day that the clock says.
_ONE_END = re.compile(
    r"(^|_)(start|begin|first|from|since|after|low|lower|min|end|stop|last|to(?!day)|until|till|before|high|upper|max)"
    r"(date|day|time|ds|dt|ts)?(_|$)"
)
# Where `IF NOT EXISTS` is a syntax error; Python names its database by the driver that it imports.
_NO_IF_NOT_EXISTS = frozenset({"tsql", "fabric", "oracle", "teradata"})
_NO_IF_EXISTS = frozenset({"oracle", "teradata"})
_DRIVERS = {"pyodbc": "tsql", "pymssql": "tsql", "cx_oracle": "oracle", "oracledb": "oracle", "teradatasql": "teradata"}
# Files of which Spark can replace single partitions.
_FILES = frozenset({"", "parquet", "orc", "csv", "json", "text", "avro", "delta"})


def propose(job: Job, finding: Finding) -> Finding:
    """Add the repair to a finding, if there is a mechanical one."""
    fix = finding.fix
    if fix is None and finding.code == "TW101":
        fix = _clock(job, finding)
    elif fix is None and finding.code in {"TW301", "TW303"}:
        fix = _append(job, finding)
    elif fix is None and finding.code == "TW314":
        fix = _create(job, finding)
    return replace(finding, fix=fix) if fix is not finding.fix else finding


def _on_line(job: Job, line: int, pattern: re.Pattern[str], text: str) -> Edit | None:
    """Return the edit for the only match on a line."""
    source = job.line(line)
    found = list(pattern.finditer(source))
    if len(found) != 1:
        return None
    return Edit(line, found[0].start() + 1, line, found[0].end() + 1, text)


def _clock(job: Job, finding: Finding) -> Fix | None:
    """The clock becomes the date that the file is already given."""
    dates = [one for one in job.parameters if one.is_date]
    uses = [use for use in job.used("clock") if use.place == finding.place]
    if not dates or not uses or len({one.name for one in dates}) > 2:
        return None
    chosen = dates[0]
    exact = (
        all(use.context in {"filter", "predicate"} for use in uses)
        and len({one.name for one in dates}) == 1
        and _means_the_day(job, finding, chosen)
    )
    if job.language in {"sql", "dbt"}:
        edit = _on_line(job, finding.line, _SQL_CLOCK, _sql_date(chosen))
        direct = edit is not None and not re.match(
            r"\s*[-+]|\s*\)\s*[-+,]", job.line(finding.line)[edit.end_column - 1 :]
        )
    else:
        reachable = chosen.kind == "argument" and chosen.expression.startswith("args.")
        text = chosen.expression if reachable else chosen.name
        spark = _PYTHON_CLOCK.search(job.line(finding.line))
        wrapped = f"{spark[1]}.lit({text})" if spark and spark[1] else text
        edit = _on_line(job, finding.line, _PYTHON_CLOCK, wrapped)
        direct = (
            reachable
            and edit is not None
            and not re.match(r"\s*[-+.]", job.line(finding.line)[edit.end_column - 1 :])
            and "timedelta" not in job.line(finding.line)
            and "date_sub" not in job.line(finding.line)
        )
    if edit is None:
        return None
    return Fix((edit,), f"use {chosen.name}, which the job is given, instead of the clock", safe=exact and direct)


def _means_the_day(job: Job, finding: Finding, parameter: Parameter) -> bool:
    """Return whether the clock only says which day it is, and the parameter is that day, not an end of the window."""
    if _ONE_END.search(re.sub(r"(?<=[a-z])(?=[A-Z])|\W", "_", parameter.name).lower()):
        return False
    asked = False
    for around in _predicates(job):
        told = [bound for bound in around if _is_asked_at(bound, finding)]
        if any(bound.op != "=" for bound in told):
            return False
        if told and any(_names(bound, parameter.name) for bound in around):
            return False
        asked = asked or bool(told)
    return asked


def _predicates(job: Job) -> Iterator[list[Bound]]:
    """Yield what is asked of columns, query by query and predicate by predicate."""
    for query, _ in job.all_queries():
        yield [bound for filter_ in query.filters for bound in bounds(filter_)]
    for write in job.writes:
        yield list(bounds(write.predicate))


def _is_asked_at(bound: Bound, finding: Finding) -> bool:
    return any(origin.place == finding.place for _, origin in bound.value.find("clock"))


def _names(bound: Bound, name: str) -> bool:
    return any(node.name == name or any(origin.name == name for origin in node.origins) for node in bound.value.walk())


def _sql_date(parameter: Parameter) -> str:
    text = parameter.expression
    return text if text.startswith("'") else f"CAST('{text}' AS DATE)"


def _written(job: Job, finding: Finding) -> Write | None:
    return next(
        (
            write
            for write in job.writes
            if write.place.line == finding.line and write.mode in {Mode.APPEND, Mode.OVERWRITE}
        ),
        None,
    )


def _append(job: Job, finding: Finding) -> Fix | None:
    """Append becomes an overwrite of the partitions that are written."""
    write = _written(job, finding)
    if write is None or job.language != "python" or write.via != "dataframe" or write.stream:
        return None
    says = "replace the partitions that are written instead of adding to them"
    columns = {column for column, _ in write.partition if column and "{" not in column}
    whole = _brings_whole_partitions(job, write, columns)
    if write.api == "writeTo.append":
        edit = _on_line(job, write.place.line, re.compile(r"\.append\(\)"), ".overwritePartitions()")
        return Fix((edit,), says, safe=whole) if edit else None
    if not columns or not _can_replace_partitions(write):
        return None
    pattern = re.compile(r"""\.mode\(\s*["'](append|overwrite)["']\s*\)""")
    here = write.place.line
    first, last = (here, here) if pattern.search(job.line(here)) else _statement_lines(job, write)
    for number in range(first, last + 1):
        edit = _on_line(job, number, pattern, '.mode("overwrite").option("partitionOverwriteMode", "dynamic")')
        if edit is not None and "partitionoverwritemode" not in job.line(number).lower():
            return Fix((edit,), says, safe=whole)
    return None


def _can_replace_partitions(write: Write) -> bool:
    """Return whether the option for dynamic mode has an effect: saveAsTable recreates all tables but Delta's."""
    if write.target.kind == "path":
        return write.format in _FILES
    return write.api == "saveAsTable" and write.format == "delta"


_ROWS = frozenset(Mode) - {Mode.CREATE, Mode.ALTER}


def _brings_whole_partitions(job: Job, write: Write, columns: set[str]) -> bool:
    """Return whether a partition holds just what this write brings: no other write fills or cuts it."""
    if write.loop or write.stream_batch_id or not write.target.name or "{" in write.target.name or write.query is None:
        return False
    others = [one for one in job.writes if one is not write and one.mode in _ROWS]
    if any(one.target.same(write.target) or not one.target.name or "{" in one.target.name for one in others):
        return False
    if not _runs_once(job.text, write.function):
        return False
    queries = list(write.query.walk())
    filters = [part for query in queries for filter_ in query.filters for part in filter_.conjuncts()]
    if write.predicate is not None or len(filters) != 1 or not all(_passes_all(query) for query in queries):
        return False
    return any(
        bound.column in columns
        and bound.op == "="
        and any(node.origins or node.kind in {"param", "python"} for node in bound.value.walk())
        and _is_kept(write.query, bound.column)
        for bound in bounds(filters[0])
    )


def _runs_once(text: str, function: str) -> bool:
    """Return whether a file does not run a function twice: each call would bring its own part of the partition."""
    tree = _parsed(text)
    todo, seen = [function.rsplit(".", 1)[-1]], set[str]()
    while todo and tree is not None:
        name = todo.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        mentions = list(_mentions(tree, name, ""))
        if len(mentions) > 1 or any(often for _, often in mentions):
            return False
        todo.extend(around for around, _ in mentions)
    return tree is not None


_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _mentions(node: ast.AST, name: str, function: str, *, often: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield where a name is used: the function around it, and whether it may be called often from there.

    In a loop it may, and wherever it is handed on (to `map`, to an executor), but not as the one function of a task.
    """
    for child in ast.iter_child_nodes(node):
        if (isinstance(child, ast.Name) and child.id == name) or (
            isinstance(child, ast.Attribute) and child.attr == name
        ):
            called = isinstance(node, ast.Call) and node.func is child
            yield function, often or not (called or (isinstance(node, ast.keyword) and node.arg == "python_callable"))
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _mentions(child, name, child.name)
        else:
            yield from _mentions(child, name, function, often=often or isinstance(child, _LOOPS))


def _passes_all(query: Query) -> bool:
    """Return whether a query keeps every row of its one source, but for its filters."""
    if query.limit is not None or query.sample is not None or query.branches or len(query.sources) != 1:
        return False
    source = query.sources[0]
    return "{" not in source.name and (source.path is None or not any(node.origins for node in source.path.walk()))


def _is_kept(query: Query, column: str) -> bool:
    """Return whether a column reaches the target as it was read."""
    defined = query.definition(column)
    return defined is None or (defined.kind == "column" and defined.name == column)


def _statement_lines(job: Job, write: Write) -> tuple[int, int]:
    for first, last in _statements(job.text):
        if first <= write.place.line <= last:
            return first, last
    return write.place.line, write.place.last_line


def _statements(text: str) -> Iterator[tuple[int, int]]:
    tree = _parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Expr, ast.Assign)):
            yield node.lineno, node.end_lineno or node.lineno


@lru_cache(maxsize=1)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _create(job: Job, finding: Finding) -> Fix | None:
    """CREATE TABLE becomes CREATE TABLE IF NOT EXISTS; a table made from a query is left to a human."""
    write = next(
        (one for one in job.writes if one.place.line == finding.line and one.mode in {Mode.CREATE, Mode.DROP}), None
    )
    if write is None or write.query is not None:
        return None
    drops = write.mode is Mode.DROP
    if _dialects(job) & (_NO_IF_EXISTS if drops else _NO_IF_NOT_EXISTS):
        return None
    match = _of_statement(job, write, _DROP if drops else _CREATE)
    if match is None:
        return None
    if drops:
        text, says = "DROP TABLE IF EXISTS ", "do not fail where the table is gone already"
    else:
        text, says = f"CREATE {match[1] or ''}TABLE IF NOT EXISTS ", "do not fail where the table already exists"
    edit = Edit(finding.line, match.start() + 1, finding.line, match.end() + 1, text)
    return Fix((edit,), says, safe=drops or not _is_added_to(job, write))


def _dialects(job: Job) -> set[str]:
    """Return the dialects that the file's SQL may be in, as far as they are known."""
    drivers = {_DRIVERS[name] for one in job.imports if (name := one.split(".")[0].lower()) in _DRIVERS}
    return {job.dialect, *drivers}


def _of_statement(job: Job, write: Write, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return the words with which a statement begins; on a line with several, the ones that name its table."""
    source = job.line(write.place.line)
    found = [
        match
        for match in pattern.finditer(source)
        if re.match(
            rf"""[^\s(;]*?{re.escape(write.target.last)}\b""",
            re.sub(r'[`"\[\]]', "", source[match.end() :]),
            re.IGNORECASE,
        )
    ]
    return found[0] if len(found) == 1 else None


def _is_added_to(job: Job, created: Write) -> bool:
    """Return whether the file adds rows to a table: then only its failure keeps a second run from doubling them."""
    for write in job.later(created):
        if write.mode is Mode.APPEND:
            cleared = job.cleared_by(write)
            if cleared is None or cleared is created or cleared.mode is Mode.CREATE:
                return True
    return False
