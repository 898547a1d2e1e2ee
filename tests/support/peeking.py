"""What a store says without Spark, held against what it says with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.counting import java_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.targets import Target


def peeked(spark: SparkSession, store, target: Target) -> tuple[str | None, dict | None]:
    """Return version and fingerprints that a store finds without a call to Java."""
    with java_calls(spark) as sent:
        files = store.peek_files(target)
        found = store.peek(target.table), dict(files) if files is not None else None
    assert sent == []
    return found


def agrees(spark: SparkSession, store, target: Target) -> dict:
    """Assert that a store finds the same without Spark; return the fingerprints."""
    version = store.version(spark, target.table)
    files = dict(store.files(spark, target, version))
    store.release(spark)
    found = peeked(spark, store, target)
    assert found == (version, files), f"{found} without Spark, {(version, files)} with it"
    return files
