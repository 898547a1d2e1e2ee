"""Calls of SQL stores into Spark's JVM: how it stores some rows, and those rows as Arrow messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice.content import gateway
from twice.content.java import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def storage(session: SparkSession, rows: DataFrame) -> Any | None:
    """Return what Spark knows of rows that were checkpointed; it knows nothing of any other rows."""
    logical = query_of(rows).logical()
    if logical.getClass().getSimpleName() != "LogicalRDD":
        return None
    try:
        return gateway.java_context(session).statusStore().rdd(int(logical.rdd().id()))
    except (Py4JError, PySparkException):
        return None


def arrow_messages(rows: DataFrame) -> Any:
    """Return rows as Arrow messages, partition by partition."""
    return gateway.java_rows(rows).toArrowBatchRdd().toJavaRDD()


def served(session: SparkSession, messages: Any, number: int) -> Any:
    """Let Spark serve one partition of messages on a socket: what its task gave when it succeeded."""
    java = gateway.java(session)
    numbers = java.java.util.ArrayList()
    numbers.add(number)
    return java.org.apache.spark.api.python.PythonRDD.runJob(gateway.java_context(session), messages, numbers)
