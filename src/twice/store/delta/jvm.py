"""The only module that talks to Delta's Java classes.

Spark SQL cannot make staged files part of a table, set a transaction id and change a property in one
commit; Delta's own transaction can, and it says so when somebody else was first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame

from twice.errors import EnvironmentProblem
from twice.store.delta.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as AnyDataFrame
    from pyspark.sql import SparkSession

_NOTES = "spark.databricks.delta.commitInfo.userMetadata"
# How Delta says that a version, or the log that could tell about it, has been cleaned up or never was.
_GONE = ("IllegalStateException", "FileNotFoundException", "VersionNotFoundException")
# Every claim of a scope writes its token here; a table remembers the highest one of each scope.
APPLICATION = "twice:"


@dataclass(frozen=True)
class FileInfo:
    """One data file of a table: its place in the log, its partition, its rows, and the Java action."""

    path: str
    partition: Mapping[str, object]
    rows: int | None
    identity: str
    java: Any


def gateway(session: SparkSession) -> Any:
    """Return the way to Java classes; private in PySpark by name only."""
    return session._jvm


def logs(session: SparkSession) -> Any:
    """Return Delta's own door to tables; a Spark without Delta has none."""
    found = gateway(session).org.apache.spark.sql.delta.DeltaLog
    if isinstance(found, JavaPackage):
        raise EnvironmentProblem(
            "this Spark was started without Delta",
            safe="nothing was changed",
            to_go_on="let twice start Spark, or add io.delta:delta-spark to its packages",
        )
    return found


def java_class(error: BaseException) -> str:
    """Return the Java class behind an error, or an empty text."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getClass().getName())
    origin = getattr(error, "_origin", None)
    if isinstance(error, CapturedException) and origin is not None:
        return str(origin.getClass().getName())
    return ""


def is_commit_race(error: BaseException) -> bool:
    """Tell whether somebody else's commit came first: look again and try again."""
    name = java_class(error)
    return name.endswith(("MetadataChangedException", "ProtocolChangedException", "CommitFailedException")) or (
        "Concurrent" in name.rpartition(".")[2]
    )


@contextmanager
def active(session: SparkSession, notes: Mapping[str, str] | None = None) -> Iterator[None]:
    """Make a session the one that Delta asks for its settings; `notes` go with a commit in the block."""
    sessions = gateway(session).org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    if notes is not None:
        session.conf.set(_NOTES, json.dumps(dict(notes)))
    try:
        yield
    finally:
        # A setting of the session would go with the next commit of anybody, too.
        if notes is not None:
            session.conf.unset(_NOTES)
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def none(session: SparkSession) -> Any:
    """Return Scala's nothing."""
    return gateway(session).scala.Option.empty()


def sequence(session: SparkSession, values: Iterable[Any]) -> Any:
    """Return values as Scala reads them."""
    found = gateway(session).java.util.ArrayList()
    for value in values:
        found.add(value)
    return gateway(session).scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


def values(session: SparkSession, found: Any) -> list[Any]:
    """Return what a Scala sequence holds."""
    return list(gateway(session).scala.jdk.javaapi.CollectionConverters.asJava(found))


def log_at(session: SparkSession, path: str) -> Any:
    """Return the log of a folder, whether there is one yet or not."""
    return logs(session).forTable(session._jsparkSession, path)


def snapshot(session: SparkSession, log: Any) -> Any:
    """Return what readers see now."""
    with active(session):
        return log.update(False, none(session), none(session))


def snapshot_at(session: SparkSession, log: Any, version: int) -> Any | None:
    """Return what readers saw at a version; None if it is no longer there."""
    now = snapshot(session, log)
    if int(now.version()) == version:
        return now
    with active(session):
        try:
            return log.getSnapshotAt(version, none(session), none(session), False)
        except (Py4JJavaError, CapturedException) as error:
            if java_class(error).endswith(_GONE) or "DELTA_" in str(error):
                return None
            raise


def begin(session: SparkSession, log: Any) -> Any:
    """Begin a transaction on what is there now; inside of `active`."""
    return log.startTransaction(none(session), none(session))


def commit(session: SparkSession, transaction: Any, actions: Sequence[Any]) -> int:
    """Commit a transaction; inside of `active`."""
    operations = getattr(gateway(session), "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
    return int(transaction.commit(sequence(session, actions), getattr(operations, "MODULE$")))


def claimed(session: SparkSession, application: str, token: int) -> Any:
    """Say in a commit that a scope has seen a token."""
    now = gateway(session).java.lang.System.currentTimeMillis()
    return gateway(session).org.apache.spark.sql.delta.actions.SetTransaction(
        application, token, gateway(session).scala.Some(now)
    )


def tokens(snapshot: Any) -> dict[str, int]:
    """Return the highest token that each scope has seen."""
    found = {}
    # One text instead of a call per scope: there may be thousands.
    for line in str(snapshot.setTransactions().mkString("\n")).splitlines():
        said, version, _ = line.rsplit(",", 2)
        application = said.removeprefix("SetTransaction(")
        if application.startswith(APPLICATION):
            found[application] = int(version)
    return found


def schema_of(metadata: Any) -> T.StructType:
    """Return a table's columns, with what Delta notes about them."""
    return T.StructType.fromJson(json.loads(str(metadata.schemaString())))


def layout_of(session: SparkSession, metadata: Any) -> Layout:
    """Return how a table's log spells its partition columns."""
    partitions = [str(name) for name in values(session, metadata.partitionColumns())]
    mapped = configuration(session, metadata).get("delta.columnMapping.mode", "none") != "none"
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    return Layout.of(schema_of(metadata), partitions, zone, mapped=mapped)


def configuration(session: SparkSession, metadata: Any) -> dict[str, str]:
    """Return a table's properties."""
    found = gateway(session).scala.jdk.javaapi.CollectionConverters.asJava(metadata.configuration())
    return {str(name): str(found[name]) for name in found}


def changed(metadata: Any, *, schema: str | None = None, properties: Any = None) -> Any:
    """Return a table's metadata with other columns or properties."""
    return metadata.copy(
        metadata.id(),
        metadata.name(),
        metadata.description(),
        metadata.format(),
        schema if schema is not None else metadata.schemaString(),
        metadata.partitionColumns(),
        properties if properties is not None else metadata.configuration(),
        metadata.createdTime(),
    )


def predicates(session: SparkSession, terms: Sequence[str]) -> Any:
    """Return conditions on partition columns as Delta takes them."""
    parser = session._jsparkSession.sessionState().sqlParser()
    return sequence(session, [parser.parseExpression(term) for term in terms])


def described(layout: Layout, adds: Iterable[Any]) -> list[FileInfo]:
    """Describe the actions that add files to a table."""
    return [describe(layout, add, json.loads(str(add.json()))["add"]) for add in adds]


def describe(layout: Layout, java: Any, add: Mapping[str, Any]) -> FileInfo:
    """Describe one action, as it is spelled in the log."""
    rows = json.loads(add["stats"]).get("numRecords") if add.get("stats") else None
    vector = add.get("deletionVector")
    identity = str(add["path"])
    if vector:
        rows = rows - int(vector["cardinality"]) if rows is not None else None
        identity += "\n" + json.dumps([vector["storageType"], vector["pathOrInlineDv"], vector.get("offset")])
    return FileInfo(str(add["path"]), layout.partition(add.get("partitionValues") or {}), rows, identity, java)


def moved(session: SparkSession, layout: Layout, adds: Iterable[Any], below: str) -> list[FileInfo]:
    """Describe staged files as the table sees them, from its own folder."""
    actions = gateway(session).org.apache.spark.sql.delta.actions.Action
    found = []
    for add in adds:
        said = json.loads(str(add.json()))
        if "add" in said:
            said["add"]["path"] = f"{below}/{said['add']['path']}"
            found.append(describe(layout, actions.fromJson(json.dumps(said)), said["add"]))
    return found


def files_in(session: SparkSession, snapshot: Any, terms: Sequence[str]) -> list[FileInfo]:
    """List the files of a snapshot that hold rows of partitions."""
    with active(session):
        scan = snapshot.filesForScan(predicates(session, terms), False)
        return described(layout_of(session, snapshot.metadata()), values(session, scan.files()))


def rows_of(session: SparkSession, log: Any, snapshot: Any, files: Iterable[FileInfo]) -> AnyDataFrame:
    """Read the rows of some files."""
    with active(session):
        found = log.createDataFrame(snapshot, sequence(session, [file.java for file in files]), False, none(session))
    return DataFrame(found, session)


def with_metadata(session: SparkSession, log: Any, snapshot: Any, metadata: Any) -> Any:
    """Return a snapshot's stand-in that has other columns."""
    return gateway(session).org.apache.spark.sql.delta.DummySnapshot(
        log.logPath(), log, metadata, none(session), gateway(session).scala.Some(snapshot.protocol())
    )


def fingerprint(files: Iterable[FileInfo]) -> str:
    """Name a set of data files briefly; an empty set is an empty text."""
    identities = sorted(file.identity for file in files)
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()[:32] if identities else ""
