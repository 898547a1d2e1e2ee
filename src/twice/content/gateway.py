"""Access from PySpark to its JVM, by PySpark's private names.

Only starting and joining a JVM is elsewhere: `engine/spark/quiet_java.py` and `verify/child.py`.

A session of Spark Connect has no such access, and is refused here. Importing this module loads no PySpark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twice.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Observation, SparkSession


def java(session: SparkSession) -> Any:
    """Return the packages and classes of Java."""
    return _handle(session, "_jvm")


def require(session: SparkSession) -> None:
    """Refuse a session from which no call reaches Java."""
    java(session)


def java_type(session: SparkSession, name: str) -> Any:
    """Return a Java class by its full name; resolving it package by package costs a round trip each."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, _handle(java(session), "_gateway_client"))


def java_session(session: SparkSession) -> Any:
    """Return the session as Java knows it."""
    return _handle(session, "_jsparkSession")


def is_stopped(session: SparkSession) -> bool:
    """Return whether the session's Spark was stopped: PySpark then forgets its handle into the JVM."""
    return _handle(_handle(session, "sparkContext"), "_jsc") is None


def java_context(session: SparkSession) -> Any:
    """Return Java's context of the application: its settings, its listeners and what it knows of its jobs."""
    return _handle(_handle(session, "sparkContext"), "_jsc").sc()


def java_rows(rows: DataFrame) -> Any:
    """Return a DataFrame as Java knows it."""
    return _handle(rows, "_jdf")


def java_observation(observation: Observation) -> Any:
    """Return an observation as Java knows it, once a query was made with it."""
    return _handle(observation, "_jo")


def array(session: SparkSession, kind: Any, length: int) -> Any:
    """Create a Java array."""
    return _handle(_handle(session, "sparkContext"), "_gateway").new_array(kind, length)


def is_instance(session: SparkSession, found: Any, name: str) -> bool:
    """Return whether a Java object is an instance of a class or interface."""
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(_handle(_handle(session, "sparkContext"), "_gateway"), found, name))


def address(session: SparkSession) -> tuple[int, str]:
    """Return the port and the secret with which another process reaches the same JVM."""
    parameters = _handle(_handle(session, "sparkContext"), "_gateway").gateway_parameters
    return int(parameters.port), str(parameters.auth_token)


def is_running() -> bool:
    """Return whether PySpark has started a JVM from this process."""
    from pyspark import SparkContext

    return _handle(SparkContext, "_gateway") is not None


def running_context() -> SparkContext | None:
    """Return the Spark application of this process; None before it runs, after it was stopped and without PySpark."""
    spark = sys.modules.get("pyspark")
    found = _handle(spark.SparkContext, "_active_spark_context") if spark is not None else None
    return found if getattr(found, "_jsc", None) is not None else None


def process(session: SparkSession) -> Any:
    """Return the connection to the Java process that PySpark has started."""
    return _handle(_handle(session, "sparkContext"), "_gateway")


def hadoop_settings(session: SparkSession) -> Any:
    """Return the settings of Hadoop's clients, with those of the session."""
    return java_session(session).sessionState().newHadoopConf()


def java_class(error: BaseException) -> str:
    """Return the Java class behind an error, or an empty text."""
    thrown = java_error(error)
    return str(thrown.getClass().getName()) if thrown is not None else ""


def java_error(error: BaseException) -> Any | None:
    """Return the Java exception behind an error, if there is one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return getattr(error, "_origin", None) if isinstance(error, CapturedException) else None


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Let this thread's Java look for settings and catalogs in a session, until the end of the block."""
    sessions = java_type(session, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(session))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _handle(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        from pyspark.errors import PySparkAttributeError

        if not isinstance(error, PySparkAttributeError):  # such as that of a session that was stopped
            raise
        raise EnvironmentProblem(
            "twice needs a Spark session with a JVM beside this process; one of Spark Connect has none here",
            unchanged="nothing was changed",
            next_step="unset SPARK_REMOTE and spark.remote, and let twice start Spark, or pass it a classic session",
        ) from None
