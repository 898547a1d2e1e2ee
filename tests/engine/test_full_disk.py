"""A disk that fills up while rows are staged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from twice import Day, Overwrite, Pipeline, Table, Window
from twice.errors import PermanentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    )
    if not mounted:
        pytest.skip("mounting a small file system is not allowed here")
    yield place
    subprocess.check_call(["umount", "-l", str(place)])


@pytest.mark.full
def test_a_full_disk_is_said_and_changes_nothing(lab, small_disk):
    # Given a table on a small disk that holds a day
    name = lab.name("t")
    lab.spark.sql(
        f"create table {name} (day date, id bigint, noise string) using iceberg partitioned by (day) "
        f"location 'file:{small_disk}/t'"
    )
    table = Table(name, partition=Day("day"), key=["id"], write=Overwrite())
    pipeline = Pipeline("p", grain=Day)
    rows = {"2026-04-01": 10, "2026-04-02": 200_000}

    @pipeline.extract(writes=table)
    def fetch(window: Window, spark: SparkSession) -> DataFrame:
        day = window.start.date()
        return spark.range(rows[day.isoformat()]).select(
            F.lit(day).alias("day"), "id", F.sha2(F.col("id").cast("string"), 512).alias("noise")
        )

    lab.run(pipeline, "2026-04-01")
    versions = lab.versions("t")
    # When a day comes that does not fit
    with pytest.raises(PermanentError, match="no space left") as found:
        lab.run(pipeline, "2026-04-02")
    # Then that is said, and the table is as before
    assert found.value.exit_code == 3
    assert "free some space" in found.value.next_step
    assert lab.versions("t") == versions
    assert len(lab.rows("t")) == 10
    # And once there is room, the next run finds its way: nothing is left of the first
    subprocess.check_call(["mount", "-o", "remount,size=64m", str(small_disk)])
    assert lab.run(pipeline, "2026-04-02").steps[0].rows == 200_000
    assert lab.refs("t") == ["main"]
    assert lab.ledger.leases.list() == []
