"""Rows on their way to a Postgres COPY: Arrow batches from the JVM, turned into CSV.

One partition at a time comes to the driver, and only from tasks that succeeded, so that a retried task
brings no row twice. Spark prepares what Arrow's CSV writer cannot say: bytes, arrays, JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.serializers import Serializer
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.util import _local_iterator_from_socket

from twice.content.rows import column
from twice.store.sql import problems
from twice.store.sql.types import is_array, is_json, json_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# A partition that is fetched as a whole must fit the driver: larger ones are cut first.
_LARGEST = 256 * 1024 * 1024
_INSTANT = "yyyy-MM-dd HH:mm:ss.SSSSSSXXX"


def csv_chunks(session: SparkSession, rows: DataFrame, shown: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows as CSV that Postgres reads: how many rows, and the bytes."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import csv
    except ImportError:
        raise problems.missing_driver(shown, "twice[postgres]") from None
    options = csv.WriteOptions(include_header=False, quoting_style="needed", batch_size=16_384)
    ready = _cut(session, rows).select(*(_text(field).alias(f"c{i}") for i, field in enumerate(rows.schema.fields)))
    schema = pa.schema([pa.field(field.name, _arrow_type(pa, field.dataType)) for field in ready.schema.fields])
    for message in _messages(session, ready):
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
        sink = pa.BufferOutputStream()
        csv.write_csv(batch, sink, options)
        yield batch.num_rows, sink.getvalue()


def _messages(session: SparkSession, rows: DataFrame) -> Iterator[bytes]:
    """Fetch the rows partition by partition, the next one while this one is written."""
    java: Any = session.sparkContext._jvm
    served = java.org.apache.spark.api.python.PythonRDD.toLocalIteratorAndServe(rows._jdf.toArrowBatchRdd(), True)
    fetched: Iterator[bytes] = _local_iterator_from_socket(served, _Framed())
    return fetched


class _Framed(Serializer):
    """Byte arrays behind their lengths, as the JVM serves them."""

    def load_stream(self, stream: Any) -> Iterator[bytes]:
        while True:
            length = stream.read(4)
            size = int.from_bytes(length, "big", signed=True)
            if not length or size < 0:
                return
            yield stream.read(size)


def _cut(session: SparkSession, rows: DataFrame) -> DataFrame:
    """Spread rows over more partitions if one of them would be too much for the driver."""
    plan: Any = rows._jdf.queryExecution()
    held = {
        int(info.id()): int(info.memSize()) + int(info.diskSize())
        for info in session.sparkContext._jsc.sc().getRDDStorageInfo()
    }
    logical = plan.logical()
    size = held.get(int(logical.rdd().id()), 0) if logical.getClass().getSimpleName() == "LogicalRDD" else 0
    partitions = int(plan.toRdd().getNumPartitions())
    if size <= _LARGEST * max(partitions, 1):
        return rows
    return rows.repartition(2 * size // _LARGEST + 1)


def _text(field: T.StructField) -> Column:
    """Say a column as something that Arrow writes and Postgres reads."""
    value, kind = column(field.name), field.dataType
    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))
    if is_array(kind):
        assert isinstance(kind, T.ArrayType)  # noqa: S101 - as is_array says
        element = kind.elementType
        items = F.transform(value, lambda item: F.coalesce(_element(item, element), F.lit("NULL")))
        return F.when(value.isNotNull(), F.concat(F.lit("{"), F.array_join(items, ","), F.lit("}")))
    if is_json(kind, "postgres"):
        return json_text(value)
    if isinstance(kind, T.StringType):
        return value.cast("string")
    return value


def _element(item: Column, kind: T.DataType) -> Column:
    """Say one element of a Postgres array literal; what may hold a comma or a brace stands in quotes."""
    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit('"\\\\x'), F.hex(item), F.lit('"'))
    if isinstance(kind, T.TimestampType):
        item = F.date_format(item, _INSTANT)
    elif not isinstance(kind, T.StringType | T.TimestampNTZType | T.DateType):
        return item.cast("string")
    text = F.replace(F.replace(item.cast("string"), F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
    return F.concat(F.lit('"'), text, F.lit('"'))


def _arrow_type(pa: Any, kind: T.DataType) -> Any:
    """Return the Arrow type of a prepared column.

    Instants are written as UTC times without a zone: naming it in each of them takes Arrow twenty times as long.
    """
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    known: dict[type[T.DataType], Any] = {
        T.BooleanType: pa.bool_(),
        T.ByteType: pa.int8(),
        T.ShortType: pa.int16(),
        T.IntegerType: pa.int32(),
        T.LongType: pa.int64(),
        T.FloatType: pa.float32(),
        T.DoubleType: pa.float64(),
        T.StringType: pa.string(),
        T.DateType: pa.date32(),
        T.TimestampType: pa.timestamp("us"),
        T.TimestampNTZType: pa.timestamp("us"),
    }
    return known[type(kind)]
