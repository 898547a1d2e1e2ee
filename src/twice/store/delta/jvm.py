"""The only module that talks to Delta's Java classes.

Spark SQL cannot make staged files part of a table, set a transaction id and change a property in one
commit; Delta's own transaction can, and it fails when another commit came first.
"""

from __future__ import annotations

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

from twice.content import gateway
from twice.content.java import items_of
from twice.errors import EnvironmentProblem
from twice.model.streams import StreamMark
from twice.store.delta.layout import Layout, conditions, identity_of, inside, is_mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as AnyDataFrame
    from pyspark.sql import SparkSession

    from twice.model.names import TableName
    from twice.model.targets import Target

_NOTES = "spark.databricks.delta.commitInfo.userMetadata"
# Delta's errors for a version, or the log that would show it, that has been cleaned up or never existed.
_GONE = ("IllegalStateException", "FileNotFoundException", "VersionNotFoundException")
# Every claim of a scope writes its token here; a table remembers the highest one of each scope.
APPLICATION = "twice:"
_STREAM = "twice-stream:"

java_class, java_type = gateway.java_class, gateway.java_type


@dataclass(frozen=True)
class FileInfo:
    """One data file of a table: its place in the log, its partition, its rows, and the Java action."""

    path: str
    partition: Mapping[str, object]
    rows: int | None
    identity: str
    java: Any


def logs(session: SparkSession) -> Any:
    """Return Delta's own entry point to tables; a Spark without Delta has none."""
    found = gateway.java(session).org.apache.spark.sql.delta.DeltaLog
    if isinstance(found, JavaPackage):
        raise EnvironmentProblem(
            "this Spark was started without Delta",
            unchanged="nothing was changed",
            next_step="let twice start Spark, or add io.delta:delta-spark to its packages",
        )
    return found


def is_commit_race(error: BaseException) -> bool:
    """Return whether another commit came first: look again and try again."""
    name = java_class(error)
    return name.endswith(("MetadataChangedException", "ProtocolChangedException", "CommitFailedException")) or (
        "Concurrent" in name.rpartition(".")[2]
    )


@contextmanager
def active(session: SparkSession, notes: Mapping[str, str] | None = None) -> Iterator[None]:
    """Make a session the one that Delta reads its settings from; `notes` go with a commit in the block."""
    with gateway.active(session):
        if notes is not None:
            session.conf.set(_NOTES, json.dumps(dict(notes)))
        try:
            yield
        finally:
            # A setting of the session would go with the next commit of any other code, too.
            if notes is not None:
                session.conf.unset(_NOTES)


def none(session: SparkSession) -> Any:
    """Return Scala's nothing."""
    return java_type(session, "scala.Option").empty()


def some(session: SparkSession, value: Any) -> Any:
    """Return Scala's wrapping of a value that may be absent."""
    return java_type(session, "scala.Some")(value)


def sequence(session: SparkSession, values: Iterable[Any]) -> Any:
    """Return values as Scala reads them."""
    found = java_type(session, "java.util.ArrayList")()
    for value in values:
        found.add(value)
    return java_type(session, "scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()


def log_at(session: SparkSession, path: str) -> Any:
    """Return the log of a folder, whether there is one yet or not."""
    return logs(session).forTable(gateway.java_session(session), path)


def log_of(session: SparkSession, name: TableName) -> Any:
    """Return the log of a table of Spark's own catalog."""
    return logs(session).forTable(gateway.java_session(session), _identifier(session, name))


def is_named(session: SparkSession, name: TableName) -> bool:
    """Return whether Spark's own catalog has a table of that name."""
    catalog = gateway.java_session(session).sessionState().catalog()
    return bool(catalog.tableExists(_identifier(session, name)))


def _identifier(session: SparkSession, name: TableName) -> Any:
    identifier = java_type(session, "org.apache.spark.sql.catalyst.TableIdentifier")
    return identifier(name.parts[-1], some(session, name.namespace[0]))


def forget(session: SparkSession, folder: Any) -> None:
    """Let Delta read a folder again: it caches what it has read there."""
    logs(session).invalidateCache(gateway.java_session(session), folder)


def files_of(writer: Any, rows: AnyDataFrame) -> Any:
    """Write rows as files that no version has yet; return the actions that would add them."""
    return writer.writeFiles(gateway.java_rows(rows))


def snapshot(session: SparkSession, log: Any) -> Any:
    """Return what readers see now."""
    nothing = none(session)
    with active(session):
        return log.update(False, nothing, nothing)


def snapshot_at(session: SparkSession, log: Any, version: int) -> Any | None:
    """Return what readers saw at a version; None if it no longer exists."""
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
    """Begin a transaction on the current version; inside of `active`."""
    return log.startTransaction(none(session), none(session))


def commit(session: SparkSession, transaction: Any, actions: Sequence[Any], operation: Any = None) -> int:
    """Commit a transaction; inside of `active`.

    After an operation that it does not know, Delta recomputes the table's whole state.
    """
    unknown = java_type(session, "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
    return int(transaction.commit(sequence(session, actions), operation or getattr(unknown, "MODULE$")))


def created(session: SparkSession, metadata: Any) -> Any:
    """Name the operation that creates a table."""
    return _operation(session, "CreateTable")(metadata, False, False, none(session))


def properties_set(session: SparkSession, properties: Mapping[str, str]) -> Any:
    """Name the operation that changes properties and nothing else."""
    named = getattr(java_type(session, "scala.collection.immutable.Map$"), "MODULE$").empty()
    for name, value in properties.items():
        named = named.updated(name, value)
    return _operation(session, "SetTableProperties")(named)


def written(session: SparkSession, terms: Sequence[str], *, replaces: bool) -> Any:
    """Name the operation that adds rows, or replaces the ones that meet conditions."""
    nothing, mode = none(session), java_type(session, "org.apache.spark.sql.SaveMode")
    where = some(session, " AND ".join(terms)) if replaces and terms else nothing
    return _operation(session, "Write")(mode.Overwrite if replaces else mode.Append, nothing, where, *[nothing] * 6)


def rewritten(session: SparkSession) -> Any:
    """Name the operation that changes single rows, and so the files that hold them."""
    return _operation(session, "Update")(none(session))


def _operation(session: SparkSession, name: str) -> Any:
    return java_type(session, f"org.apache.spark.sql.delta.DeltaOperations${name}")


def claimed(session: SparkSession, application: str, token: int) -> Any:
    """Return the action that records in a commit that a scope has seen a token."""
    now = java_type(session, "java.lang.System").currentTimeMillis()
    action = java_type(session, "org.apache.spark.sql.delta.actions.SetTransaction")
    return action(application, token, some(session, now))


def tokens(snapshot: Any) -> dict[str, int]:
    """Return the highest token that each scope has seen."""
    return {application: version for application, version, _ in _transactions(snapshot, APPLICATION)}


def stream_mark(snapshot: Any) -> str | None:
    """Return the mark of the stream that wrote the table last, if any did."""
    found = max(_transactions(snapshot, _STREAM), key=lambda each: each[2], default=None)
    if found is None:
        return None
    stream, query = found[0].removeprefix(_STREAM).rsplit(":", 1)
    return StreamMark(stream, query, found[1]).text


def streamed(session: SparkSession, snapshot: Any, mark: StreamMark) -> Any:
    """Return the action that records the batch of a query in a commit, as the newest mark whatever the clocks say."""
    newest = max((raised for _, _, raised in _transactions(snapshot, _STREAM)), default=0)
    now = int(java_type(session, "java.lang.System").currentTimeMillis())
    action = java_type(session, "org.apache.spark.sql.delta.actions.SetTransaction")
    return action(f"{_STREAM}{mark.stream}:{mark.query}", mark.batch, some(session, max(now, newest + 1)))


def _transactions(snapshot: Any, kind: str) -> list[tuple[str, int, int]]:
    """List the transaction ids of a kind, with their versions and when they were raised last."""
    # One text instead of a call per scope: there may be thousands.
    listed = _in_checksum(snapshot, "setTransactions")
    if listed is None:
        listed = snapshot.setTransactions()
    found = []
    for line in str(listed.mkString("\n")).splitlines():
        fields, version, raised = line.rsplit(",", 2)
        application = fields.removeprefix("SetTransaction(")
        if application.startswith(kind):
            # Some(1794979486643))
            found.append((application, int(version), int("".join(filter(str.isdigit, raised)) or 0)))
    return found


def token_of(transaction: Any, application: str) -> int:
    """Return the token that a scope has seen; the commit then fails if another one raises it in between.

    Delta's own `txnVersion` does the same, and computes the table's whole state for it.
    """
    transaction.readTxn().addOne(application)
    return tokens(transaction.snapshot()).get(application, -1)


def schema_of(metadata: Any) -> T.StructType:
    """Return a table's columns, with what Delta notes about them."""
    return T.StructType.fromJson(json.loads(str(metadata.schemaString())))


def layout_of(session: SparkSession, metadata: Any) -> Layout:
    """Return how a table's log spells its partition columns."""
    fields = _fields(metadata)
    mapped = is_mapped(fields["configuration"])
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    schema = T.StructType.fromJson(json.loads(fields["schemaString"]))
    return Layout.of(schema, fields["partitionColumns"], zone, mapped=mapped)


def partition_columns(metadata: Any) -> list[str]:
    """Return the names of a table's partition columns."""
    return [str(name) for name in _fields(metadata)["partitionColumns"]]


def configuration(metadata: Any) -> dict[str, str]:
    """Return a table's properties."""
    return {str(name): str(value) for name, value in _fields(metadata)["configuration"].items()}


def _fields(metadata: Any) -> dict[str, Any]:
    """Return metadata as the log spells it, in one round trip."""
    fields: dict[str, Any] = json.loads(str(metadata.json()))["metaData"]
    return {"configuration": {}, "partitionColumns": [], **fields}


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
    parser = gateway.java_session(session).sessionState().sqlParser()
    return sequence(session, [parser.parseExpression(term) for term in terms])


def described(session: SparkSession, metadata: Any, adds: Any) -> list[FileInfo]:
    """Describe a Scala sequence of actions that add files to a table."""
    layout, anything = layout_of(session, metadata), java_type(session, "scala.reflect.ManifestFactory").Any()
    # One text instead of a call per file.
    fields = json.loads(str(java_type(session, "org.apache.spark.sql.delta.util.JsonUtils").toJson(adds, anything)))
    return [describe(layout, java, add) for java, add in zip(items_of(adds), fields, strict=True)]


def describe(layout: Layout, java: Any, add: Mapping[str, Any]) -> FileInfo:
    """Describe one action, as it is spelled in the log."""
    rows = json.loads(add["stats"]).get("numRecords") if add.get("stats") else None
    if vector := add.get("deletionVector"):
        rows = rows - int(vector["cardinality"]) if rows is not None else None
    return FileInfo(str(add["path"]), layout.partition(add.get("partitionValues") or {}), rows, identity_of(add), java)


def moved(session: SparkSession, layout: Layout, adds: Any, below: str) -> list[FileInfo]:
    """Describe staged files as the table sees them, from its own folder."""
    actions = java_type(session, "org.apache.spark.sql.delta.actions.Action")
    found = []
    for add in items_of(adds):
        fields = json.loads(str(add.json()))
        if "add" in fields:
            fields["add"]["path"] = f"{below}/{fields['add']['path']}"
            found.append(describe(layout, actions.fromJson(json.dumps(fields)), fields["add"]))
    return found


def files_in(session: SparkSession, snapshot: Any, target: Target | None = None) -> list[FileInfo]:
    """List the files of a snapshot, or only those that hold rows of a scope.

    Asked for a scan, Delta would also count all files and rows of the table, which takes jobs of its own.
    """
    terms = conditions(target) if target else []
    with active(session):
        if (listed := _in_checksum(snapshot, "allFiles")) is not None:
            files = described(session, snapshot.metadata(), listed)
            return [file for file in files if inside(target, file.partition)] if target else files
        if terms:
            found = snapshot.filterOnPartitions(predicates(session, terms), False).productElement(0)
        else:
            found = snapshot.getAllFiles(False)
        return described(session, snapshot.metadata(), found)


def files_read(
    session: SparkSession, transaction: Any, target: Target, snapshot: Any, known: Sequence[FileInfo]
) -> list[FileInfo]:
    """List the files of a scope; the commit then fails if another one changes them in between.

    `known` are those of `snapshot`: where that is still what readers see, they are not listed again.
    """
    now = transaction.snapshot()
    found = list(known) if now.equals(snapshot) else files_in(session, now, target)
    transaction.trackReadPredicates(predicates(session, conditions(target) or ["true"]), False, True)
    transaction.trackFilesRead(sequence(session, [file.java for file in found]))
    return found


def _in_checksum(snapshot: Any, what: str) -> Any | None:
    """Return what a version's checksum lists in full; None where it does not, and Spark jobs must find it in the log.

    Delta writes a checksum beside each commit, and lists in it what is not too long.
    """
    checksum = snapshot.checksumOpt()
    listed = getattr(checksum.get(), what)() if checksum.isDefined() else checksum
    return listed.get() if listed.isDefined() else None


def rows_of(session: SparkSession, log: Any, snapshot: Any, files: Iterable[FileInfo]) -> AnyDataFrame:
    """Read the rows of some files."""
    with active(session):
        found = log.createDataFrame(snapshot, sequence(session, [file.java for file in files]), False, none(session))
    return DataFrame(found, session)


def with_metadata(session: SparkSession, log: Any, snapshot: Any, metadata: Any) -> Any:
    """Return a snapshot's stand-in that has other columns."""
    return java_type(session, "org.apache.spark.sql.delta.DummySnapshot")(
        log.logPath(), log, metadata, none(session), some(session, snapshot.protocol())
    )
