"""Iceberg tables that several writers create at the same moment, as the first chunks of a backfill do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import types as T

from twice import Day, Merge, Overwrite, Pipeline, Table, Window
from twice.engine.spark.jvm import activate
from twice.errors import TransientError
from twice.store.iceberg import jvm

pytestmark = pytest.mark.spark

COLUMNS = T.StructType([T.StructField("id", T.LongType()), T.StructField("d", T.DateType())])


def test_four_writers_create_one_table_in_a_namespace_that_is_not_there(lab):
    for number in range(5):
        table = Table(f"lake.{lab.space}_new{number}.t", partition=Day("d"), key=["id"], write=Overwrite())
        store = lab.runtime.stores.of(table)
        together = threading.Barrier(4, timeout=60)

        def create(_, table=table, store=store, together=together):
            activate(lab.spark)
            session = lab.spark.newSession()
            together.wait()
            store.prepare(session, table, COLUMNS)

        with ThreadPoolExecutor(4) as writers:
            list(writers.map(create, range(4)))
        assert store.exists(lab.spark, table)
        assert [field.name for field in lab.spark.table(table.name).schema.fields] == ["id", "d"]


def test_a_catalog_that_does_not_start_yet_is_a_transient_error_and_found_by_the_next_attempt(lab):
    # Given a catalog whose database cannot be opened at this moment
    folder, settings = lab.folder / "late", f"spark.sql.catalog.late{lab.space}"
    found = {
        settings: "org.apache.iceberg.spark.SparkCatalog",
        f"{settings}.type": "jdbc",
        f"{settings}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{settings}.warehouse": str(folder),
    }
    session = lab.spark.getActiveSession() or lab.spark  # whose settings Spark looks at
    for name, value in found.items():
        session.conf.set(name, value)
    table = Table(f"late{lab.space}.core.eu.t")
    try:
        # When a run asks for a table in it, the error names the catalog and may be retried
        with pytest.raises(TransientError, match=f"the catalog late{lab.space} did not start"):
            jvm.load(session, table.id)
        # And the next attempt finds it, empty
        folder.mkdir()
        assert jvm.load(session, table.id) is None
    finally:
        for name in found:
            session.conf.unset(name)


def test_a_publish_leaves_one_snapshot_and_the_files_that_it_refers_to(lab):
    # Given a merged table whose rows change
    table = Table(lab.name("t"), key=["id"], write=Merge(version="n"), schema="id BIGINT, n BIGINT")
    pipeline, versions = Pipeline("p", grain=Day), [1]

    @pipeline.extract(writes=table)
    def fetch(window: Window) -> Iterator[Mapping[str, object]]:
        yield from ({"id": number, "n": versions[-1]} for number in (1, 2))

    for version in (1, 2):
        versions.append(version)
        assert lab.run(pipeline, "2026-04-01").steps[0].status == "published"
    # Then there are the two versions that readers saw, and no file that none of them refers to
    live = jvm.load(lab.spark, table.id)
    snapshots = list(live.snapshots())
    assert [each.snapshotId() for each in snapshots] == lab.versions("t")
    needed = {str(each.manifestListLocation()) for each in snapshots}
    for each in snapshots:
        needed |= {str(manifest.path()) for manifest in each.allManifests(live.io())}
        needed |= {str(file.location()) for file in each.addedDataFiles(live.io())}
    root = Path(str(live.location()).removeprefix("file:"))
    there = {str(file) for pattern in ("*.avro", "*.parquet") for file in root.rglob(pattern)}
    assert there == {place.removeprefix("file:") for place in needed}
