"""No partition reaches the driver that is too much for it, however the rows are spread."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from twice.store.sql.write.checkpoint_size import CheckpointSize, fitting

pytestmark = pytest.mark.spark


def test_a_skewed_partition_is_seen_and_spread(spark):
    # Nearly all rows in one of four partitions: the average says nothing.
    skewed = (
        spark.range(40_000).repartition(4, F.when(F.col("id") < 39_000, 0).otherwise(F.col("id"))).localCheckpoint()
    )
    seen = CheckpointSize.of(spark, skewed)
    assert seen.total > 300_000
    assert seen.largest > seen.total * 0.8
    assert fitting(skewed, seen) is skewed
    spread = fitting(skewed, seen, seen.total // 3)
    assert spread.rdd.getNumPartitions() > 4
    assert spread.count() == 40_000


def test_rows_that_spark_does_not_hold_are_left_as_they_are(spark):
    rows = spark.range(10)
    assert CheckpointSize.of(spark, rows) == CheckpointSize()
    assert fitting(rows, CheckpointSize()) is rows
