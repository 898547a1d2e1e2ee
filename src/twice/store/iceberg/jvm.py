"""The way to Iceberg's Java API; `listing` describes its files.

Spark SQL cannot publish staged files, set a token and drop the branch in one commit; the Java
`Table` can. Everything here is metadata: no row is read and no Spark job is started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from twice.content import gateway
from twice.errors import TransientError
from twice.store.commit_loop import attempts
from twice.store.iceberg.listing import FileInfo, describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql import types as T

    from twice.model.names import TableName
    from twice.model.scopes import Scope
    from twice.model.targets import Target

Result = TypeVar("Result")

java_class = gateway.java_class

_EXPRESSIONS = "org.apache.iceberg.expressions.Expressions"
# Errors of a catalog that is not configured correctly: a later attempt would find the same.
_MISCONFIGURED = re.compile(r"CatalogNotFound|ClassNotFound|Cannot find|authentication failed|No suitable driver")


@lru_cache(maxsize=64)
def _looked_up(java: Any, name: str, member: str) -> Any:
    found = getattr(java, name)
    if isinstance(found, JavaPackage):  # what Py4J returns for an unknown class; the class may be loaded later
        raise TypeError(f"Spark does not know {name}: its jar is missing")
    return getattr(found, member) if member else found


def known(session: SparkSession, name: str, member: str = "") -> Any:
    """Return a Java class, or a static method of it, that is looked up once: every part of a name is a round trip."""
    return _looked_up(gateway.java(session), name, member)


def heap(session: SparkSession) -> int:
    """Return how many bytes the driver's Java may fill."""
    return int(known(session, "java.lang.Runtime", "getRuntime")().maxMemory())


def columns(session: SparkSession, kind: T.DataType) -> Any:
    """Return a type of Spark as Iceberg's; that of all columns is a schema."""
    convert = known(session, "org.apache.iceberg.spark.SparkSchemaUtil", "convert")
    return convert(gateway.java_session(session).parseDataType(kind.json()))


def schema_of(session: SparkSession, table: Any) -> T.StructType:
    """Return a table's columns as Spark reads them."""
    from pyspark.sql import types as T

    convert = known(session, "org.apache.iceberg.spark.SparkSchemaUtil", "convert")
    return T.StructType.fromJson(json.loads(convert(table.schema()).json()))


def is_local(session: SparkSession, table: Any) -> bool:
    """Return whether a table's files are on a disk of this machine, where a thread for each only adds waiting."""
    location = str(table.location())
    if location.startswith("/"):  # where that leads is a setting
        location = str(gateway.java_context(session).hadoopConfiguration().get("fs.defaultFS"))
    return location.startswith("file:")


def calling_thread(session: SparkSession) -> Any:
    """Return an executor of Java that works in the thread that calls it: Iceberg waits for others in steps of 10 ms."""
    return known(session, "org.apache.spark.util.ThreadUtils", "sameThreadExecutorService")()


def place(session: SparkSession, name: TableName) -> tuple[Any, Any, Any]:
    """Return a table's catalog, its namespace in it and its whole name."""
    load_catalog = known(session, "org.apache.iceberg.spark.Spark3Util", "loadIcebergCatalog")
    catalog = load_catalog(gateway.java_session(session), name.store)
    names = gateway.array(session, known(session, "java.lang.String"), len(name.namespace))
    for index, part in enumerate(name.namespace):
        names[index] = part
    namespace = known(session, "org.apache.iceberg.catalog.Namespace", "of")(names)
    identifier = known(session, "org.apache.iceberg.catalog.TableIdentifier", "of")
    return catalog, namespace, identifier(namespace, name.parts[-1])


def start_catalog(session: SparkSession, name: str) -> None:
    """Let a session start a catalog now; one that does not start at this moment may do so at the next attempt."""
    try:
        gateway.java_session(session).sessionState().catalogManager().catalog(name)
    except (Py4JJavaError, CapturedException) as error:
        if _MISCONFIGURED.search(f"{java_class(error)} {error}"):
            raise
        reason = next((line.strip() for line in str(error).splitlines() if "Exception: " in line), type(error).__name__)
        raise TransientError(
            f"the catalog {name} did not start: {reason.removeprefix(': ')}",
            unchanged="nothing was changed",
            next_step="run it again once the catalog answers",
        ) from error


def load(session: SparkSession, name: TableName) -> Any | None:
    """Load a table's current metadata; None if there is no such table."""
    try:
        return _loaded(session, name)
    except (Py4JJavaError, CapturedException) as error:
        # Iceberg treats a catalog that does not start as absent, and uses Spark's own instead.
        if "REQUIRES_SINGLE_PART_NAMESPACE" not in str(error):
            raise
    start_catalog(session, name.store)
    return _loaded(session, name)


def _loaded(session: SparkSession, name: TableName) -> Any | None:
    loaded = known(session, "org.apache.iceberg.spark.Spark3Util", "loadIcebergTable")
    try:
        table = loaded(gateway.java_session(session), name.sql)
    except (Py4JJavaError, CapturedException) as error:
        if "NoSuchTable" in java_class(error) or "NoSuchNamespace" in java_class(error):
            return None
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            return None
        raise
    table.refresh()
    return table


def snapshot_of(table: Any, branch: str) -> Any | None:
    """Return the head of a branch; None if the branch is missing."""
    ref = table.refs().get(branch)
    return table.snapshot(ref.snapshotId()) if ref is not None else None


def history(table: Any, head: Any | None, stop: int | None = None) -> Iterator[Any]:
    """Walk from a snapshot to its ancestors, newest first, up to `stop` (not included)."""
    while head is not None and head.snapshotId() != stop:
        yield head
        parent = head.parentId()
        head = table.snapshot(parent) if parent is not None else None


def files_in(session: SparkSession, table: Any, snapshot_id: int, expression: Any) -> list[FileInfo]:
    """List the data files of a snapshot that hold rows of an expression."""
    tasks = table.newScan().useSnapshot(snapshot_id).filter(expression).planFiles()
    try:
        found = {file.location: file for file in describe(session, table, tasks)}
    finally:
        tasks.close()
    return list(found.values())


def scope_expression(session: SparkSession, target: Target) -> Any:
    """Return the whole scope as an Iceberg expression."""
    api = known(session, _EXPRESSIONS)
    terms = []
    if (bounds := target.bounds()) and target.table.partition:
        column = target.table.partition.column
        terms.append(api.greaterThanOrEqual(column, _literal(bounds[0])))
        terms.append(api.lessThan(column, _literal(bounds[1])))
    return _all_of(session, terms + _dimension_terms(session, target))


def partitions_expression(session: SparkSession, target: Target, partitions: Sequence[Scope]) -> Any:
    """Return some of the scope's partitions as an Iceberg expression."""
    if target.table.partition is None or len(partitions) == len(target.partitions):
        return scope_expression(session, target)
    # As one text: to fill a list of Java takes a call for each value.
    values = [_literal(target.value(partition)) for partition in partitions]
    text = json.dumps({"type": "in", "term": target.table.partition.column, "values": values})
    inside = known(session, "org.apache.iceberg.expressions.ExpressionParser", "fromJson")(text)
    return _all_of(session, [inside, *_dimension_terms(session, target)])


def _dimension_terms(session: SparkSession, target: Target) -> list[Any]:
    api = known(session, _EXPRESSIONS)
    return [api.equal(name, value) for name, value in target.scope.dimensions]


def _all_of(session: SparkSession, terms: list[Any]) -> Any:
    api = known(session, _EXPRESSIONS)
    whole = api.alwaysTrue()
    for term in terms:
        whole = getattr(api, "and")(whole, term)
    return whole


def _literal(value: object) -> str:
    """Iceberg reads dates and instants from ISO text, whatever the column's type."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    assert isinstance(value, date)  # noqa: S101 - partition values are dates or instants
    return value.isoformat()


def is_commit_race(error: BaseException) -> bool:
    """Return whether another commit came first: reload and try again."""
    name = java_class(error)
    if name.endswith(("CommitFailedException", "PendingUpdateFailedException")):
        return True
    return "SQLITE_BUSY" in str(error) or "database is locked" in str(error)


def retried(operation: Callable[[], Result]) -> Result:
    """Repeat a metadata operation that reloads, as long as other commits come first."""
    for last in attempts():
        try:
            return operation()
        except (Py4JJavaError, CapturedException) as error:
            if not is_commit_race(error) or last:
                raise
    raise AssertionError("unreachable")
