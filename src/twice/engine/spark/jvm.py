"""Calls into Spark's JVM by the engine and the packages above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twice.content import gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

active, address, context, is_instance = gateway.active, gateway.address, gateway.java_context, gateway.is_instance
java_session = gateway.java_session
is_running, is_stopped, require = gateway.is_running, gateway.is_stopped, gateway.require
running_context = gateway.running_context


def activate(session: SparkSession) -> None:
    """Give a thread that has no active session this one: Spark finds catalogs by the active one's settings."""
    sessions = gateway.java(session).org.apache.spark.sql.SparkSession
    if sessions.getActiveSession().isEmpty():
        sessions.setActiveSession(gateway.java_session(session))


def parser(session: SparkSession) -> Any:
    """Return Spark's own parser of SQL."""
    return gateway.java_session(session).sessionState().sqlParser()


def zones(session: SparkSession) -> Any:
    """Return Java's class of time zones, which knows the one of the machine."""
    return gateway.java(session).java.util.TimeZone


def knows(session: SparkSession, name: str) -> bool:
    """Return whether Spark was started with the jar of a class."""
    from py4j.protocol import Py4JJavaError

    loader = gateway.java(session).org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True


def kafka_cluster(session: SparkSession, settings: Mapping[str, str]) -> str | None:
    """Ask a Kafka cluster for its id; without the connector's jar there is no such class, a `TypeError`."""
    java = gateway.java(session)
    properties = java.java.util.Properties()
    for name, value in settings.items():
        properties.setProperty(name, value)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        found: str | None = admin.describeCluster().clusterId().get()
    finally:
        admin.close()
    return found


def end(session: SparkSession) -> None:
    """Stop Spark, and wait until its Java has ended."""
    process = gateway.process(session)
    session.stop()
    process.shutdown()
    process.proc.stdin.close()
    process.proc.wait()
