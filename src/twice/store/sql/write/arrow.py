"""Rows on their way to a Postgres COPY: Arrow batches from the JVM, turned into CSV.

One partition at a time comes to the driver, and only from tasks that succeeded, so that a retried task
brings no row twice. Spark prepares what Arrow's CSV writer cannot write: bytes, arrays, JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.serializers import Serializer
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.util import _load_from_socket

from twice.content.rows import column
from twice.store.sql import jvm, problems
from twice.store.sql.schema.types import is_array, is_json, json_text
from twice.store.sql.write.checkpoint_size import CheckpointSize, fitting
from twice.store.sql.write.copying import Part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MANY = 8 * 1024 * 1024
_INSTANT = "yyyy-MM-dd HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True)
class Feed:
    """Rows as CSV that Postgres reads, a part for each partition; and whether they are many."""

    parts: Sequence[Part]
    is_large: bool


def csv_feed(session: SparkSession, rows: DataFrame, shown: str) -> Feed:
    """Prepare held rows; each partition is fetched when its turn comes."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import csv
    except ImportError:
        raise problems.missing_driver(shown, "twice[postgres]") from None
    options = csv.WriteOptions(include_header=False, quoting_style="needed", batch_size=16_384)
    held = CheckpointSize.of(session, rows)
    ready = fitting(rows, held).select(*(_text(field).alias(f"c{i}") for i, field in enumerate(rows.schema.fields)))
    schema = pa.schema([pa.field(field.name, _arrow_type(pa, field.dataType)) for field in ready.schema.fields])
    messages: Any = jvm.arrow_messages(ready)

    def part(number: int) -> Iterator[tuple[int, Any]]:
        for message in _messages(session, messages, number):
            batch = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
            sink = pa.BufferOutputStream()
            csv.write_csv(batch, sink, options)
            yield batch.num_rows, sink.getvalue()

    numbers = range(int(messages.getNumPartitions()))
    return Feed([partial(part, number) for number in numbers], is_large=held.total > _MANY and len(numbers) > 1)


def _messages(session: SparkSession, messages: Any, number: int) -> Iterator[bytes]:
    """Fetch one partition: what its task gave when it succeeded."""
    fetched: Iterator[bytes] = _load_from_socket(jvm.served(session, messages, number), _Framed())
    return fetched


class _Framed(Serializer):
    """Byte arrays behind their lengths, as the JVM serves them."""

    def load_stream(self, stream: Any) -> Iterator[bytes]:
        while length := stream.read(4):
            size = int.from_bytes(length, "big", signed=True)
            if size < 0:
                return
            yield stream.read(size)


def _text(field: T.StructField) -> Column:
    """Return a column as something that Arrow writes and Postgres reads."""
    value, kind = column(field.name), field.dataType
    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))
    if is_array(kind):
        assert isinstance(kind, T.ArrayType)  # noqa: S101 - is_array returned True
        element = kind.elementType
        items = F.transform(value, lambda item: F.coalesce(_element(item, element), F.lit("NULL")))
        return F.when(value.isNotNull(), F.concat(F.lit("{"), F.array_join(items, ","), F.lit("}")))
    if is_json(kind, "postgres"):
        return json_text(value)
    if isinstance(kind, T.StringType):
        return value.cast("string")
    return value


def _element(item: Column, kind: T.DataType) -> Column:
    """Return one element of a Postgres array literal; what may hold a comma or a brace is quoted."""
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
