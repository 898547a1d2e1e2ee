"""Whoever waits for Spark sees how many of its tasks have ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.support.processes import until
from twice.engine.spark.running_tasks import running_tasks

pytestmark = pytest.mark.spark


def test_the_tasks_of_a_running_job_are_counted(spark, tmp_path):
    released = str(tmp_path / "released")

    def hold(number, rows):
        while number and not Path(released).exists():
            time.sleep(0.01)
        return rows

    rows = spark.sparkContext.parallelize(range(4), 4).mapPartitionsWithIndex(hold)
    counted = []
    job = threading.Thread(target=lambda: counted.append(rows.count()))
    job.start()
    try:
        until(lambda: running_tasks() == (1, 4))
    finally:
        Path(released).touch()
        job.join()
    assert counted == [4]
    until(lambda: running_tasks() is None)
