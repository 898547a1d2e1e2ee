"""What a SQL statement does as soon as it is passed to a session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice.engine.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
# Plans that Spark carries out at once; the last ones by their names, because they have no class in common.
_COMMANDS = (f"{_LOGICAL}.Command", f"{_LOGICAL}.ParsedStatement")
_MORE_COMMANDS = frozenset({"Call", "ExecuteImmediateQuery", "InsertIntoDir", "UnresolvedExecuteImmediate"})
# Commands that only read (SHOW …, DESCRIBE …, LIST …), or change only what ends with the session or the
# application. Every other command is taken for one that writes.
_LOOKS = re.compile(r"(?:Show|Describe|List)[A-Z]\w*")
_STAYS_IN_SESSION = frozenset(
    {"AddArchivesCommand", "AddFilesCommand", "AddJarsCommand", "CacheTable", "CacheTableAsSelect",
     "ClearCacheCommand$", "CreateFunctionCommand", "CreateSQLFunctionCommand", "CreateTempViewUsing", "CreateVariable",
     "CreateViewCommand", "DropFunctionCommand", "DropVariable", "ExplainCommand", "RefreshFunction", "RefreshResource",
     "RefreshTable", "ResetCommand", "SetCatalogAndNamespace", "SetCatalogCommand", "SetCommand", "SetNamespaceCommand",
     "SetVariable", "UncacheTable"}
)  # fmt: skip
_PLACE = re.compile(r"\{[^{}]*\}")
_QUERY = re.compile(r"\s*(?:select|values|table|from|with|\()\b(?!.*\binsert\b)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """A statement: its first word, whether anything is done at once, and whether that outlives the session."""

    word: str
    at_once: bool
    writes: bool


def read_statement(session: SparkSession, query: str, places: Mapping[str, Any]) -> Statement:
    """Let Spark's own parser read a statement; one that it cannot read fails by itself, and does nothing."""
    word = (query.split() or [""])[0]
    parser = jvm.parser(session)
    try:
        plan = parser.parsePlan(_PLACE.sub("x", query) if places else query)
    except (PySparkException, Py4JError):
        # With placeholders for DataFrames, a placeholder may be what cannot be parsed.
        return Statement(word, at_once=bool(places), writes=bool(places) and not _QUERY.match(query))
    nodes = [node for node in _walk(plan) if _is_command(session, node)]
    kinds = [str(node.getClass().getSimpleName()) for node in nodes]
    return Statement(
        word,
        at_once=any(not _is_plain(node) for node in nodes),
        writes=any(kind not in _STAYS_IN_SESSION and not _LOOKS.fullmatch(kind) for kind in kinds),
    )


def _walk(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children().iterator()
    while children.hasNext():
        yield from _walk(children.next())


def _is_command(session: SparkSession, node: Any) -> bool:
    if str(node.getClass().getSimpleName()) in _MORE_COMMANDS:
        return True
    return any(jvm.is_instance(session, node, command) for command in _COMMANDS)


def _is_plain(node: Any) -> bool:
    """Return whether a command only names a query or a setting, in this session."""
    kind = str(node.getClass().getSimpleName())
    return kind == "SetCommand" or (kind == "CreateViewCommand" and str(node.viewType().toString()) == "LocalTempView")
