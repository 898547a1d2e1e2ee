"""The shop's payments: a month fetched through transient errors, twice, is the same month."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product

import pytest
from pyspark.sql import functions as F

import twice.testing
from examples.payments_api.trouble import Trouble
from examples.shop.dice import Dice
from examples.shop.generator import SEED, customers_feed, epoch_day, order_id_of
from examples.shop.payments import fct_payments, payments, payments_of_orders, raw_payments
from examples.shop.pipeline import dim_customer, fct_orders, raw_customers
from examples.shop.truth import deliveries_of, expected_orders
from tests.support.project import FULL
from twice.errors import RetriesExhausted, StepFailed

pytestmark = pytest.mark.spark

# A month; `make test` takes its first days
DAYS = 30 if FULL else 5
FIRST, AFTER = date(2026, 4, 25), date(2026, 4, 25) + timedelta(days=DAYS)
MONTH = {"from_": str(FIRST), "to": str(AFTER)}
ORDERS, CUSTOMERS = 60, 50
PAGE = 100


@pytest.fixture(autouse=True)
def _tables(lab) -> Iterator[None]:
    """The shop's tables have names of their own, so they are removed after each test."""
    for space in {table.name.rpartition(".")[0] for table in payments.tables()}:
        lab.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {space}")
    yield
    for table in payments.tables():
        lab.spark.sql(f"DROP TABLE IF EXISTS {table.name} PURGE")


def versions(lab, table) -> int:
    return lab.spark.sql(f"SELECT * FROM {table.name}.history").count()


def land_orders_and_customers(spark) -> None:
    """Write what the shop's own steps would make of a month's deliveries."""
    days = [FIRST + timedelta(days=n) for n in range(DAYS)]
    made = []
    for day, number in product(days, range(ORDERS)):
        deliveries = list(deliveries_of(Dice(SEED), epoch_day(day), number, CUSTOMERS))
        newest = max(deliveries, key=lambda one: one.updated)
        made.append((day, order_id_of(day, number), newest.customer, newest.status, Decimal(newest.cents) / 100))
    schema = "order_date DATE, order_id BIGINT, customer_id BIGINT, status STRING, amount_usd DECIMAL(12, 2)"
    facts = spark.createDataFrame(made, schema).coalesce(1).sortWithinPartitions("order_date")
    facts.writeTo(fct_orders.name).using("iceberg").partitionedBy(F.col("order_date")).create()
    versions = [row for day in days for row in customers_feed(day, CUSTOMERS)]
    newest_rows = {row["customer_id"]: row for row in sorted(versions, key=lambda row: row["updated_at"])}
    people = spark.createDataFrame(list(newest_rows.values()), raw_customers.schema).drop("ingestion_date")
    people.coalesce(1).writeTo(dim_customer.name).using("iceberg").create()


def test_s42_a_month_of_payments_fetched_twice_through_transient_errors_is_identical(lab, providers):
    land_orders_and_customers(lab.spark)
    provider = providers.start(
        orders=ORDERS,
        customers=CUSTOMERS,
        trouble=Trouble(seed=1, errors=25, slow=10 if FULL else 50, slow_seconds=0.01),
        per_second=8 if FULL else 2,
        burst=5 if FULL else 1,
    )
    first = lab.run(payments, **MONTH)

    # Every order is paid within two days: there is nothing to charge
    assert [step.status for step in first.steps] == ["published", "published", "unchanged"]
    pages = -(-first.steps[0].rows // PAGE)
    assert pages > DAYS // 2
    assert provider.answers["200"] == pages  # no page is fetched twice, whatever happened
    assert min(provider.answers["500"], provider.answers["429"], provider.slow) > 0
    assert provider.calls.total() == pages + provider.answers["500"] + provider.answers["429"]
    found = lab.spark.table(fct_payments.name)
    paid = {row.order_date: row.usd for row in found.groupBy("order_date").agg(F.sum("net_usd").alias("usd")).collect()}
    whole_days = [FIRST + timedelta(days=n) for n in range(DAYS - 1)]  # of the last day some is paid later
    assert {day: paid[day] for day in whole_days} == {
        day: expected_orders(day, ORDERS, CUSTOMERS).revenue for day in whole_days
    }
    before = found.where("order_date IS NULL")
    assert before.where(f"charged_on <> '{FIRST}' OR order_id >= {FIRST:%Y%m%d}00000000").count() == 0
    assert found.where("order_date IS NOT NULL AND region IS NULL").count() == 0

    published = versions(lab, raw_payments), versions(lab, fct_payments)
    other = providers.start(
        orders=ORDERS, customers=CUSTOMERS, trouble=Trouble(seed=2, errors=30), per_second=4, burst=1
    )
    again = lab.run(payments, **MONTH)

    assert [step.status for step in again.steps] == ["unchanged"] * 3
    assert [step.digest for step in again.steps] == [step.digest for step in first.steps]
    assert (versions(lab, raw_payments), versions(lab, fct_payments)) == published
    assert other.answers["200"] == pages
    assert other.calls.total() == pages + other.answers["500"] + other.answers["429"]

    calls = other.calls.total()
    fresh = lab.run(payments, **MONTH, skip_fresh=True)
    assert [step.status for step in fresh.steps] == ["fresh"] * 3
    assert other.calls.total() == calls
    one_day = lab.run(payments, "2026-04-28")
    assert [step.status for step in one_day.steps] == ["unchanged"] * 3


@pytest.mark.full
def test_s35_an_unpaid_order_is_charged_again_once(lab, providers):
    land_orders_and_customers(lab.spark)
    # Of 100 calls 40 are carried out and answered with an error
    provider = providers.start(orders=ORDERS, unpaid=100, trouble=Trouble(seed=3, errors=40))
    days = {"from_": str(FIRST), "to": str(FIRST + timedelta(days=2))}
    first = lab.run(payments, **days, steps=["raw_payments_feed", "orders_without_payment"])
    cancelled = {str(row.order_id) for row in lab.spark.table(fct_orders.name).where("status = 'cancelled'").collect()}
    declined = {
        charge.order_id: charge.amount
        for charge in provider.charges.newest_first(*epochs(FIRST, 1))
        if charge.status == "failed" and charge.order_id not in cancelled
    }
    assert [effect.states for effect in first.effects if effect.states] == [{"confirmed": len(declined)}]
    assert {charge.order_id: charge.amount for charge in provider.charges.posted} == declined
    assert provider.calls["POST /charges"] > len(provider.charges.posted) == len(declined) > 0
    # Again, and alone
    calls = provider.calls["POST /charges"]
    lab.run(payments, str(FIRST + timedelta(days=1)), steps=["orders_without_payment"])
    assert provider.calls["POST /charges"] == calls


def epochs(day: date, days: int) -> tuple[int, int]:
    start = int(datetime(day.year, day.month, day.day, tzinfo=timezone.utc).timestamp())
    return start, start + days * 86_400


def test_a_provider_that_stays_down_is_exit_75_and_is_not_stormed(lab, providers):
    provider = providers.start(orders=ORDERS, trouble=Trouble(errors=100))
    with pytest.raises(RetriesExhausted, match="HTTP Error 500") as raised:
        lab.run(payments, str(FIRST), steps=["raw_payments_feed"])
    assert raised.value.exit_code == 75
    assert provider.calls.total() == 4 * 4
    assert not lab.spark.catalog.tableExists(raw_payments.name) or lab.spark.table(raw_payments.name).isEmpty()


def test_a_refused_key_is_exit_3_after_one_call_and_stays_secret(lab, providers, monkeypatch):
    monkeypatch.setenv("PAYMENTS_API_KEY", "sk_secret")
    provider = providers.start(orders=ORDERS, key="another")
    with pytest.raises(StepFailed, match="HTTP Error 401") as raised:
        lab.run(payments, str(FIRST), steps=["raw_payments_feed"])
    assert (raised.value.exit_code, provider.calls.total()) == (3, 1)
    assert "sk_secret" not in str(raised.value)


def test_without_an_address_the_run_says_what_to_set(lab, monkeypatch):
    monkeypatch.delenv("PAYMENTS_API_URL", raising=False)
    with pytest.raises(StepFailed, match="PAYMENTS_API_URL is not set"):
        lab.run(payments, str(FIRST), steps=["raw_payments_feed"])


def test_a_payment_waits_for_its_order_and_declined_cards_do_not_count(spark):
    at = datetime(2026, 4, 25, 0, 5, tzinfo=timezone.utc)
    rows = [
        ("ch_1", 1, "cus_7", "succeeded", 995, 0, "usd", at, FIRST),
        ("ch_2", 2, "cus_7", "failed", 100, 0, "usd", at, FIRST),
        ("ch_3", 3, "cus_7", "succeeded", 1000, 1000, "usd", at, FIRST),
    ]
    charges = spark.createDataFrame(rows, raw_payments.schema)
    evening = datetime(2026, 4, 24, 23, 59, tzinfo=timezone.utc)
    orders = spark.createDataFrame(
        [(1, FIRST - timedelta(days=1), evening, 7, "paid")],
        "order_id BIGINT, order_date DATE, ordered_at TIMESTAMP, customer_id BIGINT, status STRING",
    )
    customers = spark.createDataFrame([(7, "asia", at)], "customer_id BIGINT, region STRING, updated_at TIMESTAMP")
    found = twice.testing.run(payments_of_orders, str(FIRST), charges=charges, orders=orders, customers=customers)
    assert [
        (row.charge_id, row.order_status, row.region, row.paid_usd, row.net_usd)
        for row in found.orderBy("charge_id").collect()
    ] == [
        ("ch_1", "paid", "asia", Decimal("9.95"), Decimal("9.95")),
        ("ch_3", None, None, Decimal("10.00"), Decimal("0.00")),
    ]
