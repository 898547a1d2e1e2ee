"""Iceberg tables that several writers create at the same moment, as the first chunks of a backfill do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import types as T

from twice import Day, Overwrite, Table
from twice.engine.session import activate
from twice.engine.stores import Stores

pytestmark = pytest.mark.spark

COLUMNS = T.StructType([T.StructField("id", T.LongType()), T.StructField("d", T.DateType())])


def test_four_writers_create_one_table_in_a_namespace_that_is_not_there(lab):
    for number in range(5):
        table = Table(f"lake.{lab.space}_new{number}.t", partition=Day("d"), key=["id"], write=Overwrite())
        store = Stores(lab.config).of(table)
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
