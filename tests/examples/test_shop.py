"""The whole shop for a day: the lake, and the application's own database."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal

import pytest

from examples import chat
from examples.shop import pipeline
from examples.shop.truth import expected_orders
from twice import run
from twice.config import Config
from twice.ledger import open_ledger

pytestmark = pytest.mark.spark

DAY = date(2026, 4, 25)
ORDERS, CUSTOMERS = 300, 50


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[chat.Channel]:
    """The channel that the shop posts to: its address is read when the pipeline is imported."""
    with chat.listening() as found:
        monkeypatch.setenv("SHOP_CHAT_URL", found.url)
        importlib.reload(pipeline)
        yield found
    monkeypatch.delenv("SHOP_CHAT_URL")
    importlib.reload(pipeline)


@pytest.fixture
def config(spark, channel, shop_config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """The shop in miniature, with a ledger and a serving database of its own."""
    monkeypatch.setattr("examples.shop.pipeline.ORDERS_PER_DAY", ORDERS)
    monkeypatch.setattr("examples.shop.pipeline.CUSTOMERS", CUSTOMERS)
    yield shop_config
    for table in pipeline.shop.tables():
        if table.id.store == "lake":
            spark.sql(f"DROP TABLE IF EXISTS {table.name} PURGE")


def served(config: Config) -> list[tuple[object, ...]]:
    """Read the mart as the application does: without Spark, without twice."""
    with closing(sqlite3.connect(config.root / "serving.db")) as database:
        return database.execute(
            "SELECT order_date, customer_id, orders, amount_usd FROM daily_customer_summary ORDER BY 1, 2"
        ).fetchall()


@pytest.mark.full
def test_s02_the_shop_serves_a_day_to_the_application_and_again_changes_nothing(spark, config, channel):
    shop, daily_customer_summary = pipeline.shop, pipeline.daily_customer_summary
    ledger = open_ledger(config.ledger)
    how = {"config": config, "spark": spark, "ledger": ledger}
    run(shop, from_="2026-04-25", to="2026-04-29", steps=["raw_orders_feed"], **how)
    first = run(shop, str(DAY), **how)

    truth = expected_orders(DAY, ORDERS, CUSTOMERS)
    rows = served(config)
    assert {row[0] for row in rows} == {str(DAY)}
    assert len({row[1] for row in rows}) == len(rows) == first.steps[-1].rows
    assert sum(Decimal(str(row[3])) for row in rows) == truth.revenue
    assert truth.orders * 0.9 < sum(int(row[2]) for row in rows) < truth.orders

    again = run(shop, str(DAY), **how)
    assert {step.status for step in again.steps} == {"unchanged"}
    assert [step.digest for step in again.steps] == [step.digest for step in first.steps]
    assert served(config) == rows
    # The post about the day went out once (S34)
    (post,) = channel.posts
    assert post.startswith(f"Revenue of {DAY}: {truth.revenue:,.2f} USD\nref ")

    with closing(sqlite3.connect(config.root / "serving.db")) as database, database:
        database.execute("DELETE FROM daily_customer_summary WHERE customer_id % 2 = 0")
    repaired = run(shop, str(DAY), steps=["daily_customer_summary"], **how)
    assert [(step.table, step.status) for step in repaired.steps] == [(daily_customer_summary.name, "published")]
    assert served(config) == rows
