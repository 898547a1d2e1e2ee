"""Which statements of a connection commit together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import (
    Value,
    constant,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_AUTOCOMMIT = re.compile(r"snowflake|bigquery|spark|hive|athena|presto|trino|databricks|clickhouse", re.IGNORECASE)


def transaction_of(interp: Interpreter, full: str, base: str, keywords: dict[str, Value]) -> int | None:
    """Return the transaction that a statement belongs to, if its connection has one."""
    if _AUTOCOMMIT.search(full) or constant(keywords.get("autocommit")) is True or interp.autocommit:
        return None
    if _only_duckdb(interp):
        return None
    if interp.state.transaction is not None:
        return interp.state.transaction
    if (
        re.search(r"cur|conn|session|\bdb\b|cnx|con\b|engine|hook|tx|trans", base, re.IGNORECASE)
        and interp.connections >= 0
    ):
        interp.state.transaction = interp.builder.new_transaction()
    return interp.state.transaction


def _only_duckdb(interp: Interpreter) -> bool:
    """Return whether the only database of a file is DuckDB, which commits every statement by itself."""
    imports = " ".join(interp.job.imports)
    return "duckdb" in imports and not _DRIVERS.search(imports)


_DRIVERS = re.compile(r"psycopg|sqlalchemy|pymysql|sqlite3|pyodbc|mysql|oracledb|cx_Oracle|airflow")


def is_one_transaction(full: str, keywords: dict[str, Value]) -> bool:
    """Return whether the statements of one call commit together."""
    return (
        "hook" in full.lower()
        and full.endswith(".run")
        and constant(keywords.get("autocommit")) is not True
        and not _AUTOCOMMIT.search(full)
    )
