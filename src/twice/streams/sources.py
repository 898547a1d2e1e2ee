"""From a declared source to the rows that Spark reads as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from twice.content.changes import row_hashes_of
from twice.content.rows import column
from twice.engine.spark.jvm import kafka_cluster
from twice.errors import DefinitionError, EnvironmentProblem, StoreRefused
from twice.model.streams import KafkaSource, RateSource, Windowed
from twice.store.protocol import Streaming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.engine.stores import Stores
    from twice.model.streams import Stream


def events(session: SparkSession, stores: Stores, stream: Stream) -> DataFrame:
    """Read a stream's source, as it is delivered."""
    source = stream.reads
    with _explained(stream):
        if isinstance(source, KafkaSource):
            return _kafka(session, source, stream)
        if isinstance(source, RateSource):
            reader = session.readStream.format("rate").option("rowsPerSecond", source.rows_per_second)
            return reader.options(**stream.options).load()
        store = stores.source(source)
        if not isinstance(store, Streaming):
            raise StoreRefused(
                f"stream {stream.name}: a stream cannot follow {source.name}: a {store.abilities.kind} store does not "
                "say which rows were added",
                unchanged="nothing was changed",
                next_step="read an Iceberg or Delta table, files, or Kafka",
            )
        if not store.exists(session, source):
            raise StoreRefused(
                f"stream {stream.name}: its source {source.name} does not exist",
                unchanged="nothing was changed",
                next_step=f"create {source.name}, or correct the name in its Table(…)",
            )
        return store.follow(session, source, stream.options)


def identity(session: SparkSession, stream: Stream) -> str:
    """Return the source in words, with the id of its Kafka cluster where that can be asked."""
    source = stream.reads
    if not isinstance(source, KafkaSource):
        return stream.source_text
    settings = {
        name.removeprefix("kafka."): value for name, value in source.options.items() if name.startswith("kafka.")
    }
    settings |= {"bootstrap.servers": source.servers, "request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}
    try:
        cluster = kafka_cluster(session, settings)
    except (Py4JError, TypeError):  # no connector, or no answer: the query itself explains that better
        return stream.source_text
    return f"{stream.source_text}{_CLUSTER}{cluster}" if cluster else stream.source_text


def is_same(before: str, now: str) -> bool:
    """Compare two sources in words; a cluster whose id is not known may be any."""
    (what, _, cluster), (what_now, _, cluster_now) = before.partition(_CLUSTER), now.partition(_CLUSTER)
    return what == what_now and (cluster == cluster_now or not cluster or not cluster_now)


def kept(before: str, now: str) -> str:
    """Return which of two texts of one source to keep: a cluster that does not answer now keeps its id."""
    return before if is_same(before, now) and _CLUSTER not in now else now


def windowed(rows: DataFrame, stream: Stream, dedup: Windowed) -> DataFrame:
    """Let Spark remember the keys of events for a while, and drop repeats and what is too old."""
    name = str(dedup.event_time)
    found = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    for asked in (name, *dedup.key, *([dedup.order] if dedup.order else [])):
        if asked not in found:
            raise DefinitionError(
                f"stream {stream.name}: its source has no column {asked}; it has {', '.join(found)}",
            )
    if not found[name].startswith("timestamp"):
        raise DefinitionError(f"stream {stream.name}: event_time {name} must be a timestamp, it is {found[name]}")
    marked = rows.withWatermark(name, f"{dedup.seconds} seconds")
    # The operator keeps the first row that it meets. The rows of a key come from one sorted partition, so that it meets
    # the same one first whenever the batch is read; Spark's check refuses any sort in a stream, also one like this.
    session = rows.sparkSession
    session.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    key, order = [*map(column, dedup.key)], [column(dedup.order)] if dedup.order else []
    in_order = marked.repartition(int(str(session.conf.get("spark.sql.shuffle.partitions"))), *key)
    in_order = in_order.sortWithinPartitions(*key, *order, *row_hashes_of(marked, marked.columns))
    return in_order.dropDuplicatesWithinWatermark(list(dedup.key))


def _kafka(session: SparkSession, source: KafkaSource, stream: Stream) -> DataFrame:
    options = {"startingOffsets": "earliest", **source.options, **stream.options}
    reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", source.servers)
    rows = reader.option("subscribe", ",".join(source.topics)).options(**options).load()
    if source.schema is None:
        return rows
    parsed = F.from_json(F.col("value").cast("string"), source.schema, {"mode": "FAILFAST"})
    places = [F.col(name).alias(f"kafka_{name}") for name in _KAFKA]
    return rows.select(parsed.alias("event"), *places).select("event.*", *(f"kafka_{name}" for name in _KAFKA))


_CLUSTER = " of cluster "
_KAFKA = ("topic", "partition", "offset", "timestamp")


@contextmanager
def _explained(stream: Stream) -> Iterator[None]:
    try:
        yield
    except ParseException as error:
        raise DefinitionError(f"stream {stream.name}: the schema cannot be read: {_first(error)}") from None
    except AnalysisException as error:
        if "kafka" in str(error).lower() and isinstance(stream.reads, KafkaSource):
            raise EnvironmentProblem(
                f"stream {stream.name}: Spark has no connector for Kafka",
                unchanged="nothing was run",
                next_step='name it in twice.toml: packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:…", …]',
            ) from error
        raise StoreRefused(
            f"stream {stream.name}: Spark cannot follow {stream.source_text}: {_first(error)}",
            unchanged="nothing was changed",
        ) from error


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
