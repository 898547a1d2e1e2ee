"""Where a sandbox may not lie, and where a store of `[verify.stores.*]` may not be: the places of production."""

from __future__ import annotations

import pytest

from twice import config as configuration
from twice.errors import ConfigError
from twice.verify.sandbox import refuse_production


def load(folder, text):
    (folder / "twice.toml").write_text(text)
    return configuration.load(folder / "twice.toml")


@pytest.mark.parametrize(
    ("store", "twin", "why"),
    [
        ('type = "iceberg"', 'warehouse = "other"', "names no catalog, and would share that of production"),
        ('type = "iceberg"', 'catalog = "sqlite:///other.db"', "names no warehouse, and would share that"),
        ('type = "delta"', "", "names no path, and would share that of production"),
        ('type = "parquet"\npath = "plain"', 'path = "./plain/"', "is the place of production"),
        (
            'type = "sql"\nurl = "postgresql://a@localhost/x"',
            'url = "postgres://b@127.0.0.1:5432/x"',
            "is the place of",
        ),
    ],
)
def test_a_twin_at_the_place_of_production_is_refused(tmp_path, store, twin, why):
    config = load(tmp_path, f"[stores.s]\n{store}\n[verify.stores.s]\n{twin}")
    with pytest.raises(ConfigError) as refused:
        refuse_production(config, tmp_path / "sandbox")
    assert refused.value.message.startswith("[verify.stores.s] ")
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("store", "twin"),
    [
        ('type = "iceberg"', 'warehouse = "other"\ncatalog = "sqlite:///other.db"'),
        ('type = "delta"\npath = "warehouse"', 'path = "other"'),
        ('type = "delta"', 'catalog = "spark"'),
        ('type = "iceberg"\ncatalog = "spark"', 'catalog = "sqlite:///other.db"'),
        ('type = "sql"\nurl = "postgresql://a@localhost/x"', 'url = "postgresql://a@localhost/verify"'),
    ],
)
def test_a_twin_at_a_place_of_its_own_is_accepted(tmp_path, store, twin):
    refuse_production(load(tmp_path, f"[stores.s]\n{store}\n[verify.stores.s]\n{twin}"), tmp_path / "sandbox")


def test_a_sandbox_in_the_warehouse_is_refused(tmp_path):
    config = load(tmp_path, '[stores.lake]\ntype = "iceberg"')
    with pytest.raises(ConfigError, match="lies in store lake of production"):
        refuse_production(config, tmp_path / ".twice" / "warehouse" / "sandbox")
