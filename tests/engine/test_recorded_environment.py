"""What a run was made with is compared with what there is now, and put back where that is possible."""

from __future__ import annotations

import pytest

from twice.engine.spark.environment import changed_software, put_back, settings, zone_of
from twice.engine.spark.session import fresh


def test_other_versions_and_jars_that_are_gone_are_named():
    recorded = {"versions": {"python": "3.11.7", "spark": "4.0.1", "numpy": "1.26.4"}, "jars": ["a.jar", "b.jar"]}
    now = {"versions": {"python": "3.11.7", "spark": "4.1.4"}, "jars": ["b.jar", "c.jar"]}
    assert changed_software(recorded, now) == [
        "spark was 4.0.1 and is 4.1.4",
        "numpy was 1.26.4 and is not installed",
        "the jar a.jar is missing",
    ]
    assert changed_software(recorded, recorded) == []
    assert changed_software({}, now) == []  # of a run from before this was recorded


@pytest.mark.spark
def test_settings_that_decide_rows_are_put_back_and_one_that_cannot_be_set_is_named(spark):
    session = fresh(spark, "UTC")
    session.conf.set("spark.sql.legacy.sizeOfNull", "true")  # made since
    recorded = {"settings": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.warehouse.dir": "/elsewhere",
    }}  # fmt: skip
    assert put_back(session, recorded) == ["spark.sql.warehouse.dir was /elsewhere and cannot be set here"]
    found = settings(session)
    assert found["spark.sql.ansi.enabled"] == "false"
    # The zone is for the windows of the run, and not of the session that is given.
    assert (found["spark.sql.session.timeZone"], zone_of(recorded)) == ("UTC", "Asia/Tokyo")
    assert "spark.sql.legacy.sizeOfNull" not in found
