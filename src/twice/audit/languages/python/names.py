"""Names of the Python world that mean something to the audit."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

# What Airflow hands to a task by name.
LOGICAL = frozenset({"ds", "ts", "execution_date", "logical_date", "data_interval_start", "data_interval_end", "ds_nodash", "next_ds", "prev_ds", "yesterday_ds", "tomorrow_ds", "ts_nodash", "next_execution_date", "prev_execution_date", "partition_key"})  # fmt: skip
LOG_METHODS = frozenset(
    {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "trace", "success", "fatal", "notice"}
)
LOGGERS = re.compile(
    r"(^|\.|_)(log|logger|logging|_log|_logger|loguru|logs|lg|LOGGER|LOG)$|^logging\.|structlog|loguru", re.IGNORECASE
)
METRICS = re.compile(
    r"statsd|prometheus|metric|gauge|histogram|datadog|put_metric_data|\.timing$|\.incr$|\.observe$|newrelic|opentelemetry|tracer|span\.",
    re.IGNORECASE,
)
CREDENTIALS = re.compile(
    r"expir|token|jwt|credential|presign|ttl|session_duration|signature|\bexp\b|\biat\b|nonce", re.IGNORECASE
)
TEMPORARY = re.compile(
    r"(^|[/_.-])(te?mp|scratch|staging_tmp|checkpoint)([/_.-]|$)|^/tmp|tempfile|mkdtemp", re.IGNORECASE
)
LOG_FILE = re.compile(r"\.log\b|(^|[/_-])logs?([/_-]|$)", re.IGNORECASE)
GUARDS = re.compile(
    r"exist|is_?delta_?table|has_table|already|processed|\bdone\b|sent|seen|loaded|completed|marker|checkpoint|dedup|duplicate|idempot|is_new|not\s+in\b|was_|has_(run|been)|is_empty|isEmpty|count\(\)\s*(==|>)|last_run|_SUCCESS",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def is_logger(name: str) -> bool:
    """Return whether an object is a log, by its name."""
    return bool(LOGGERS.search(name))


@lru_cache(maxsize=4096)
def is_metric(name: str) -> bool:
    """Return whether a call counts or measures, by its name."""
    return bool(METRICS.search(name))


@lru_cache(maxsize=4096)
def is_credential(name: str) -> bool:
    """Return whether a call makes a token or a signature, by its name."""
    return bool(CREDENTIALS.search(name))


DATE_WORDS = re.compile(
    r"date|day|(^|_)ds($|_)|(^|_)dt($|_)|time|start|end$|(^|_)end_|month|from|until|since|period|interval|hour|window|as_?of|yyyymm",
    re.IGNORECASE,
)
SQL_START = re.compile(
    r"^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*|;\s*)*(insert\s+(into|overwrite|or|ignore)|delete\s+from|delete\s+\w+\s+from|merge\s+(into\s+)?[\w{\[\"`]|update\s+[\w.{}\"`\[\]]+\s+(as\s+\w+\s+|\w+\s+)?set|truncate\s|create\s+(or\s+replace\s+)?(temp|temporary|table|view|external|transient|global|materialized|unlogged)|drop\s+(table|view)|alter\s+table|with\s+\w+\s*(\([^)]*\)\s*)?as\s*(materialized\s*)?\(|select\s|copy\s+(into\s+)?[\w.{\"]|replace\s+into|load\s+data|begin\b|call\s|unload\s*\(|set\s|use\s|optimize\s|msck|cache\s|commit\b|start\s+transaction|declare\s|if\s+(object_id|exists|not)|explain\s|refresh\s|vacuum\b|\{)",
    re.IGNORECASE | re.DOTALL,
)
SQL_WRITE = re.compile(
    r"^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(with\s|insert\s+(into|overwrite|or|ignore)|delete\s+from|merge\s+into|update\s+[\w.{}\"`\[\]]+\s+set|truncate\s+table|create\s+(or\s+replace\s+)?(temp|temporary|table|external|transient)|drop\s+table|copy\s+(into\s+)?[\w.]+\s|select\s.+\sfrom\s)",
    re.IGNORECASE | re.DOTALL,
)
SQL_METHODS = frozenset(
    {
        "sql", "execute", "executemany", "executescript", "query", "run", "run_query", "raw", "execute_sql", "run_sql", "exec", "exec_driver_sql",
        "get_records", "get_first", "get_pandas_df", "read_sql", "read_sql_query", "read_gbq", "execute_values", "execute_batch", "execute_string",
        "execute_async", "query_and_wait", "fetch", "fetchrow", "fetchval", "fetch_all", "fetch_one", "execute_query", "run_statement", "read_sql_table",
        "get_df", "scalar", "scalars", "text", "mogrify", "copy_expert", "query_df", "command", "insert_rows",
    }
)  # fmt: skip

_BATCH_NUMBER = re.compile(r"(micro_?)?(batch|epoch)_?(id|number|num|no)", re.IGNORECASE)


def micro_batch(arguments: Sequence[str]) -> str:
    """Return the argument with the batch's number, if a function looks made for foreachBatch.

    >>> micro_batch(["batch_df", "batch_id"]), micro_batch(["df", "epochId"]), micro_batch(["rows", "batch_id"])
    ('batch_id', 'epochId', '')
    """
    own = list(arguments[1:] if arguments and arguments[0] == "self" else arguments)
    if len(own) != 2 or not _BATCH_NUMBER.fullmatch(own[1]):
        return ""
    return own[1] if "batch" in own[0].lower() or "epoch" in own[1].lower() else ""


def mentions(body: Sequence[ast.AST], name: str) -> bool:
    """Return whether statements use a name for more than a log line."""
    return any(
        one.id == name
        for part in body
        for one in ast.walk(part)
        if isinstance(one, ast.Name) and not _in_log(one, part)
    )


def _in_log(name: ast.Name, statement: ast.AST) -> bool:
    """Whether a name stands only inside a log or print call of a statement."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            called = (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else call.func.id
                if isinstance(call.func, ast.Name)
                else ""
            )
            if (called in LOG_METHODS or called == "print") and any(inner is name for inner in ast.walk(call)):
                return True
    return False
