"""Tables that are called like logs: those that hold one row per run, and those that hold data."""

from __future__ import annotations

import re
from functools import lru_cache

from twice.audit.model import Write
from twice.audit.queries import Query

# Calls, events and messages are data as often as they are records of what a job did.
_MAY_BE_DATA = re.compile(
    r"^(?!.*(^|_)(etl|elt|jobs?|runs?|batch|process(es)?|proc|loads?|pipelines?|errors?|exec|executions?|dags?|tasks?|ingest\w*|dq|sync"
    r"|debug|rejects?|rejected|failed|failures?|audit|import|migrations?|scripts?|changes?|quality|dwh?)_)"
    r"(.*_)?(logs?|notifications?|audits)$",
    re.IGNORECASE,
)
_RUN_WORDS = re.compile(
    r"(^|[._])(control|etl\w*|elt|audit|logging|monitoring|meta\w*|admin|ops|dba)\.[^.]+$", re.IGNORECASE
)
_OWN = re.compile(
    r"^(information_schema|sys|pg_catalog|inserted|deleted|stg_errors?)(\.|$)|\{|(^|[._])errors?$", re.IGNORECASE
)
_TOTALS = frozenset({"count", "sum", "min", "max", "avg", "count_distinct", "approx_count_distinct", "count_if"})


def brings_data(write: Write) -> bool:
    """Return whether rows of a source go into a table that only sounds like a log: INSERT INTO call_logs SELECT …."""
    return (
        not write.target.temporary
        and write.target.kind in {"table", "path"}
        and _may_be_data(write.target.name, write.target.last)
        and write.query is not None
        and _reads_rows(write.query)
    )


@lru_cache(maxsize=4096)
def _may_be_data(name: str, last: str) -> bool:
    return bool(_MAY_BE_DATA.match(last)) and not _RUN_WORDS.search(name)


def _reads_rows(query: Query) -> bool:
    """Return whether a query hands rows of named tables on, rather than one row about them."""
    if any(_reads_rows(branch) for branch in query.branches):
        return True
    named = [name for name in query.tables() if name and not _OWN.search(name)]
    counts = not query.group_by and any(
        node.kind == "call" and node.name in _TOTALS for column in query.columns for node in column.expr.walk()
    )
    return bool(named) and not counts
