"""A table is taken out of a catalog's database only if nothing was committed to it since it was looked at."""

from __future__ import annotations

import sqlite3

from twice import Table
from twice.config import StoreConfig
from twice.store.iceberg.catalog import CatalogDatabase

NAME = Table("lake.core.eu.t").id


def test_a_table_that_was_committed_to_since_stays_in_the_catalog(tmp_path):
    # Given a catalog as Iceberg lays it out
    with sqlite3.connect(tmp_path / "catalog.db") as file:
        file.execute(
            "create table iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, "
            "previous_metadata_location, iceberg_type)"
        )
        for catalog, name in (("lake", "t"), ("lake", "other"), ("pond", "t")):
            row = (catalog, "core.eu", name, "now.json", None, "TABLE")
            file.execute("insert into iceberg_tables values (?, ?, ?, ?, ?, ?)", row)
    catalog = CatalogDatabase.of(StoreConfig("lake", "iceberg", {"catalog": "sqlite:///catalog.db"}), tmp_path)
    assert catalog is not None
    # When another attempt has committed in between, the table stays
    assert not catalog.forget(NAME, "before.json")
    # And otherwise this one goes, and no other
    assert catalog.forget(NAME, "now.json")
    with sqlite3.connect(tmp_path / "catalog.db") as file:
        left = file.execute("select catalog_name, table_name from iceberg_tables").fetchall()
    assert left == [("lake", "other"), ("pond", "t")]
    assert not catalog.forget(NAME, "now.json")


def test_a_catalog_of_the_cluster_or_one_that_does_not_answer_keeps_its_tables(tmp_path):
    assert CatalogDatabase.of(StoreConfig("lake", "iceberg", {"catalog": "spark"}), tmp_path) is None
    empty = CatalogDatabase.of(StoreConfig("lake", "iceberg", {}), tmp_path)
    assert empty is not None
    assert not empty.forget(NAME, "now.json")
