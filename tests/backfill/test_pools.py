"""Pools of the configuration, as Spark gets them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse
from xml.etree import ElementTree as ET

from twice import config as configuration
from twice.engine.spark.session import settings


def test_pools_become_spark_s_allocation_file(tmp_path):
    file = tmp_path / "twice.toml"
    file.write_text('[pools.slow]\n[pools."fast & <odd>"]\nweight = 4\nmin_share = 2\n')
    found = settings(configuration.load(file))
    assert found["spark.scheduler.mode"] == "FAIR"
    allocation = Path(urlparse(found["spark.scheduler.allocation.file"]).path)
    pools = {
        pool.get("name"): {child.tag: child.text for child in pool}
        for pool in ET.fromstring(allocation.read_text())  # noqa: S314 - we wrote it
    }
    assert pools == {
        "slow": {"schedulingMode": "FAIR", "weight": "1", "minShare": "0"},
        "fast & <odd>": {"schedulingMode": "FAIR", "weight": "4", "minShare": "2"},
    }


def test_without_pools_spark_s_own_order_stays(tmp_path):
    (tmp_path / "twice.toml").write_text("")
    assert "spark.scheduler.mode" not in settings(configuration.load(tmp_path / "twice.toml"))
