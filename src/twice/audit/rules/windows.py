"""Which part of time a write is about: the window that its query is cut to, and the one that is removed before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.expressions import Bound, Expr, bounds
from twice.audit.model import Job, Mode, Target, Write
from twice.audit.queries import Query
from twice.audit.vocabulary import is_time_column

_DATE_WORD = re.compile(
    r"(^|[_\W])(d|day|date|ds|dt|hour|hr|month|week|year|start|end|from|to|since|until|interval|period|window|yesterday|today|ts"
    r"|ymd|yyyymmdd|partition|batch)(_|\W|$)|date|datetime|ds_nodash|execution|logical_|data_interval",
    re.IGNORECASE,
)
_HOLE = re.compile(r"\{([^{}]+)\}")
_LITERAL = re.compile(r"\d{4}-\d\d-\d\d|\d{8}|\d{4}-\d\d")
_GIVEN = frozenset({"param", "python"})


@dataclass(frozen=True)
class Window:
    """A cut in time: the column (or "" for an input path), and what it is compared with."""

    column: str
    value: str
    closed: bool  # one value or both ends are given, not only everything after one


def window_of(write: Write) -> Window | None:
    """Return the window that a write's rows are cut to by a date that the run is given, if there is one.

    An upper bound alone is not a window: "everything up to" is a full rebuild. Everything since some days ago by the
    clock is none either: such tables are meant to hold just that.
    """
    if write.query is None:
        return None
    if write.query.branches:
        found = [_window_of_query(branch) for branch in write.query.branches]
        return found[0] if all(found) else None
    return _window_of_query(write.query)


def _window_of_query(whole: Query) -> Window | None:
    best: Window | None = None
    for query in whole.walk():
        given = [bound for filter_ in query.filters for bound in bounds(filter_) if _is_dated_bound(bound)]
        ended = {bound.column for bound in given if bound.op in {"<", "<="}}
        for bound in given:
            exact = bound.op in {"=", "in"}
            if bound.op in {"<", "<="} or (bound.value.has("clock") and not exact):
                continue
            window = Window(bound.column, next(names_in(bound.value), bound.column), exact or bound.column in ended)
            if window.closed:
                return window
            best = best or window
    return _window_of_paths(whole) or best


def _is_dated_bound(bound: Bound) -> bool:
    if bound.value.has("watermark") and not bound.value.has("parameter"):  # the newest of a source, whichever that is
        return False
    if bound.op == "=" and is_time_column(bound.column) and is_date(bound.value):
        return True
    if not is_given(bound.value):
        return False
    return is_time_column(bound.column) or any(_DATE_WORD.search(name) for name in names_in(bound.value))


def is_date(value: Expr) -> bool:
    """Return whether a value is a date that stands in the code: an assignment at its top, or a query without tables."""
    if value.query is not None:
        return not value.query.tables()
    return value.kind == "literal" and bool(_LITERAL.fullmatch(str(value.value)))


def _window_of_paths(query: Query) -> Window | None:
    for below in query.walk():
        for source in below.sources:
            if source.kind in {"path", "stream"} or source.path is not None:
                for name in (*holes_in(source.name), *(names_in(source.path) if source.path is not None else ())):
                    if _DATE_WORD.search(name):
                        return Window("", name, closed=True)
    return None


def is_given(value: Expr) -> bool:
    """Return whether a value comes from outside the statement: a parameter, a Python value or the clock."""
    return any(node.kind in _GIVEN for node in value.walk()) or value.has("parameter") or value.has("clock")


def names_in(value: Expr) -> Iterator[str]:
    """Yield the names of the parameters and origins in a value."""
    for node in value.walk():
        if node.kind in _GIVEN and node.name:
            yield node.name
        for origin in sorted(node.origins, key=lambda one: (one.place, one.name)):
            if origin.kind in {"parameter", "clock", "state"} and origin.name:
                yield origin.name


def holes_in(name: str) -> list[str]:
    """Return the parts of a name or path that are only known when the job runs."""
    return _HOLE.findall(name)


def dates_in(target: Target) -> list[str]:
    """Return the dates that a computed name or path carries."""
    names = [*holes_in(target.name), *(names_in(target.expr) if target.expr is not None else ())]
    return [name for name in names if _DATE_WORD.search(name)]


def is_dynamic(job: Job) -> bool:
    """Return whether the file makes overwrites replace only the partitions that they bring rows for."""
    return any(
        (name.endswith("partitionoverwritemode") and value == "dynamic")
        or (name.startswith("hive.exec.dynamic.partition") and value in {"true", "nonstrict"})
        for name, value in job.settings.items()
    )


def makes_anew(job: Job, write: Write) -> bool:
    """Return whether an overwrite in dynamic mode recreates the whole table all the same.

    `saveAsTable` drops the table and creates it, whatever the mode says; only Delta's keeps the other partitions. A
    table without a format is Delta's where the file speaks of Delta or of Databricks.
    """
    if write.api != "saveAsTable" or write.mode is not Mode.OVERWRITE_PARTITIONS:
        return False
    return write.format in _MADE_ANEW if write.format else not _DELTA.search(job.text)


_MADE_ANEW = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "hive", "iceberg"})
_DELTA = re.compile(r"(?<![a-z])delta|databricks|dbutils", re.IGNORECASE)  # but no timedelta


def same_value(one: Expr, other: Expr) -> bool:
    """Return whether two values are written the same, wherever they stand; `?` and `%s` may mean anything."""
    return shape(one) == shape(other) or (_is_anonymous(one) and _is_anonymous(other))


def shape(expr: Expr) -> str:
    """Return how an expression is written, without its place: `-(param day, literal 3)`."""
    if expr.kind == "call" and expr.name.startswith(("cast", "date", "to_date")) and len(expr.args) == 1:
        return shape(expr.args[0])
    if expr.kind == "literal":
        return f"literal {expr.name or expr.value}"
    inner = ", ".join(shape(arg) for arg in expr.args)
    return f"{expr.kind} {expr.name}({inner})" if inner else f"{expr.kind} {expr.name}"


def _is_anonymous(expr: Expr) -> bool:
    return expr.kind == "param" and expr.name.strip("?%s()$:") == ""
