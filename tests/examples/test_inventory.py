"""The inventory job: run twice it is identical; its unsafe twin has all four bugs."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from examples.shop import inventory
from examples.shop.pipeline import fct_orders
from examples.shop.sizes import OPENING_STOCK, PRODUCTS
from examples.unsafe import inventory as unsafe
from tests.support.mail import mail_server
from twice import run
from twice.ledger import open_ledger

pytestmark = pytest.mark.spark

DAY = date(2026, 4, 25)
ORDERS = 60
PAID = sum(number % 3 != 0 for number in range(ORDERS))


@pytest.fixture
def mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The mails that a server took: its address is read when the pipeline is imported."""
    with mail_server(sent=tmp_path / "sent") as (port, taken):
        monkeypatch.setenv("SHOP_MAIL", f"127.0.0.1:{port}")
        monkeypatch.setenv("SHOP_MAIL_SENT", str(tmp_path / "sent"))
        importlib.reload(inventory)
        yield taken
    monkeypatch.delenv("SHOP_MAIL")
    importlib.reload(inventory)


@pytest.fixture
def shop(spark, shop_config, mails) -> Iterator[dict[str, Any]]:
    """A day of orders, and where the inventory job keeps its things."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {fct_orders.name.rpartition('.')[0]}")
    status = F.expr("if(id % 3 = 0, 'placed', 'paid')").alias("status")
    orders = spark.range(ORDERS).select(F.lit(DAY).alias("order_date"), F.col("id").alias("order_id"), status)
    orders.coalesce(1).writeTo(fct_orders.name).using("iceberg").partitionedBy(F.col("order_date")).create()
    yield {"config": shop_config, "spark": spark, "ledger": open_ledger(shop_config.ledger)}
    for table in (fct_orders.name, inventory.stock_adjustments.name):
        spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")


def stock_in(file: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT product, on_hand FROM stock ORDER BY product").fetchall()


def adjustments(spark, table: str) -> list[tuple[Any, ...]]:
    rows = spark.table(table).select("product", "quantity", "adjustment_id").collect()
    return sorted(tuple(row) for row in rows)


def test_s37_the_inventory_job_run_twice_is_identical_and_sends_one_mail(spark, shop, mails, tmp_path):
    first = run(inventory.inventory, str(DAY), **shop)
    assert [step.status for step in first.steps] == ["published", "published"]
    rows, left = adjustments(spark, inventory.stock_adjustments.name), stock_in(tmp_path / "serving.db")
    assert sum(row[1] for row in rows) == PAID
    assert sum(on_hand for _, on_hand in left) == PRODUCTS * OPENING_STOCK - PAID

    again = run(inventory.inventory, str(DAY), **shop)
    assert [step.status for step in again.steps] == ["unchanged", "unchanged"]
    assert adjustments(spark, inventory.stock_adjustments.name) == rows
    assert stock_in(tmp_path / "serving.db") == left
    (mail,) = mails
    assert "Subject: To pack for 2026-04-25" in mail
    assert all(f"product {product}: {quantity}" in mail for product, quantity, _ in rows)

    # An older day is corrected after a newer one was run: the newer one's next run adds up all of it again
    run(inventory.inventory, str(DAY + timedelta(days=1)), **shop)
    spark.sql(f"UPDATE {fct_orders.name} SET status = 'cancelled' WHERE order_id = 1")
    run(inventory.inventory, str(DAY), **shop)
    run(inventory.inventory, str(DAY + timedelta(days=1)), **shop)
    assert sum(on_hand for _, on_hand in stock_in(tmp_path / "serving.db")) == PRODUCTS * OPENING_STOCK - PAID + 1


@pytest.mark.full
def test_s37_the_unsafe_twin_has_all_four_bugs(spark, mails, tmp_path):
    table = "lake.unsafe.inventory"
    arguments = [table, "--date", str(DAY), "--orders", "60", "--stock", str(tmp_path / "stock.db")]
    try:
        unsafe.main(arguments, spark)
        once, left = adjustments(spark, table), stock_in(tmp_path / "stock.db")
        unsafe.main(arguments, spark)
        twice, less = adjustments(spark, table), stock_in(tmp_path / "stock.db")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    assert len(twice) == 2 * len(once)
    assert len({row[2] for row in twice}) == 2 * len(once)
    taken = [OPENING_STOCK - on_hand for _, on_hand in left]
    assert [OPENING_STOCK - on_hand for _, on_hand in less] == [2 * quantity for quantity in taken] != []
    assert len(mails) == 2
