"""Calls of something that is not known: what is passed to which receiver."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.languages.python import (
    effects,
    lakes,
    merging,
    names,
    orchestration,
    orm,
    reading_data,
    sql_calls,
)
from twice.audit.languages.python.values import (
    NONE,
    Instance,
    Name,
    Origins,
    Rows,
    Value,
    constant,
    made_of,
    origins_of,
    shown,
)
from twice.audit.model import same_table

if TYPE_CHECKING:
    from twice.audit.expressions import Origin
    from twice.audit.languages.python.interpreter import Interpreter


_UPLOADS = frozenset(
    {"upload_file", "upload_fileobj", "upload_from_filename", "upload_blob", "load_file", "fput_object", "put_object", "put"}
)  # fmt: skip

# A function that brings rows, by its name or by that of its module: fetch_orders(since), api.get_orders(since).
_FETCHES = re.compile(
    r"(^|\.)(fetch|extract|download|pull|ingest|scrape|crawl|backfill|import|get|list|query|search|retrieve|load|read)"
    r"(_[a-z]\w*|[A-Z]\w*)(\.\w+)?$"
)


def _may_decide(interp: Interpreter, origin: Origin) -> bool:
    """Return whether the newest of a table is known before the table is written; after that it only checks."""
    return origin.kind == "watermark" and not any(
        same_table(origin.table, write.target.name) for write in interp.job.writes
    )


def _uploaded(interp: Interpreter, values: list[Value]) -> None:
    """Know that a local file outlives the run, because it is copied to a bucket."""
    names_ = {shown(value).strip().lower() for value in values}
    for write in interp.job.writes:
        if write.target.temporary and write.target.kind == "path" and write.target.name in names_:
            write.target = replace(write.target, temporary=False)


def unknown_call(
    interp: Interpreter,
    name: str,
    method: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    owner: Value | None,
) -> Value:
    """A call of something that is not known: what is passed to which receiver."""
    full = f"{name}.{method}" if method and not name.endswith(method) else name or method
    if owner is not None and not isinstance(owner, (Name, Instance)):
        full = f"{owner.name or interp.source(node.func)}"
        full = f"{full}.{method}" if method and not full.endswith(f".{method}") else full
    last = method or full.rpartition(".")[2]
    base = full.rpartition(".")[0]
    origins: Origins = origins_of(owner) if owner is not None and not isinstance(owner, Instance) else NONE
    given: Origins = NONE
    for one in (*arguments, *keywords.values()):
        given |= origins_of(one)
    if (last in names.LOG_METHODS and (names.is_logger(base) or not base)) or full in {
        "print",
        "pprint",
        "pprint.pprint",
        "click.echo",
        "sys.stdout.write",
        "sys.stderr.write",
        "display",
        "warnings.warn",
        "st.write",
    }:
        interp.use(given, "log", node)
        return Value()
    if last == "sleep":
        interp.use(given, "sleep", node)
        return Value()
    if names.is_metric(full):
        interp.use(given, "metric", node)
        return Value(origins=origins | given)
    if last in _UPLOADS:
        _uploaded(interp, [*arguments, *keywords.values()])
    found = merging.glue(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = effects.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = lakes.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = orm.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    found = sql_calls.unknown(interp, full, last, arguments, keywords, node, owner)
    if found is not None:
        return found
    found = reading_data.unknown(interp, full, last, arguments, keywords, node, owner)
    if found is not None:
        return found
    found = orchestration.unknown(interp, full, last, arguments, keywords, node)
    if found is not None:
        return found
    if (
        last
        in {
            "strftime",
            "isoformat",
            "date",
            "timestamp",
            "replace",
            "astimezone",
            "to_datetime_string",
            "format",
            "subtract",
            "add",
            "start_of",
            "end_of",
            "to_date_string",
            "in_timezone",
            "int_timestamp",
            "timetuple",
            "floor",
            "normalize",
            "total_seconds",
            "time",
            "isocalendar",
            "weekday",
            "strptime",
            "combine",
            "fromtimestamp",
            "hex",
            "__str__",
            "lower",
            "upper",
            "strip",
            "split",
            "decode",
            "encode",
            "to_pydatetime",
            "float_timestamp",
            "diff",
            "shift",
        }
        or not full
    ):
        if last == "diff":
            return Value()
        return Value(origins=origins | given, name=interp.source(node)[:60])
    if names.is_credential(full):
        interp.use(given, "credential", node)
    elif any(origin.kind in {"clock", "random"} for origin in given) and last not in {
        "timedelta",
        "relativedelta",
        "DateOffset",
        "Duration",
    }:
        interp.use(
            frozenset(origin for origin in given if origin.kind in {"clock", "random"}), "argument", node, detail=full
        )
    if _FETCHES.search(full):
        interp.use(frozenset(origin for origin in given if _may_decide(interp, origin)), "argument", node)
    if isinstance(constant(owner), str):
        return Value(origins=given)
    made = Value(origins=origins | given, name=interp.source(node)[:60])
    return made_of(made, owner if isinstance(owner, Rows) else None, *arguments, *keywords.values())
