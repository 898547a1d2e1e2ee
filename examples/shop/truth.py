"""The right answers, computed one order at a time in plain Python, to compare the tables with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from examples.shop.dice import Dice
from examples.shop.generator import (
    CENTS_FROM,
    CENTS_RANGE,
    DAY_SECONDS,
    DUPLICATED,
    LAST_HOUR,
    LATE_EVENING,
    LATEST_ARRIVAL_DAYS,
    REDELIVERED,
    SEED,
    STATUSES,
    customers_feed,
    epoch_day,
)


@dataclass(frozen=True)
class Expected:
    """What the tables must say about one business date; cancelled orders count, but earn nothing."""

    orders: int
    revenue: Decimal
    revenue_by_region: Mapping[str, Decimal]


@dataclass(frozen=True)
class Delivery:
    """One version of an order: how many days later it arrives, and what it says."""

    arrives: int
    updated: int
    customer: int
    status: str
    cents: int


def expected_orders(
    business_date: date,
    orders_per_day: int,
    customers: int = 500,
    seed: int = SEED,
    through: date | None = None,
    opening: date = date(2026, 4, 25),
) -> Expected:
    """Return the truth about a business date once all ingestion dates up to `through` have been loaded.

    Without `through` everything has arrived: three days later. The regions are those of the newest
    customer versions delivered by then.
    """
    through = through or business_date + timedelta(days=LATEST_ARRIVAL_DAYS)
    regions = _regions(customers, seed, opening, through)
    orders, by_region = 0, defaultdict[str, Decimal](Decimal)
    for number in range(orders_per_day):
        deliveries = deliveries_of(Dice(seed), epoch_day(business_date), number, customers)
        arrived = [one for one in deliveries if business_date + timedelta(days=one.arrives) <= through]
        if not arrived:
            continue
        newest = max(arrived, key=lambda one: one.updated)
        orders += 1
        if newest.status != "cancelled":
            by_region[regions.get(newest.customer, "unknown")] += Decimal(newest.cents) / 100
    return Expected(orders, sum(by_region.values(), Decimal(0)), dict(sorted(by_region.items())))


def _regions(customers: int, seed: int, opening: date, through: date) -> dict[int, str]:
    versions: dict[int, tuple[str, str]] = {}
    for age in range((through - opening).days + 1):
        for row in customers_feed(opening + timedelta(days=age), customers, seed, opening):
            customer, version = int(str(row["customer_id"])), (str(row["updated_at"]), str(row["region"]))
            versions[customer] = max(version, versions.get(customer, version))
    return {customer: region for customer, (_, region) in versions.items()}


def deliveries_of(dice: Dice, day: int, number: int, customers: int) -> Iterator[Delivery]:
    """Yield how the n-th order of a day (counted since 1970) is delivered: once, or twice."""

    def roll(purpose: str, sides: int) -> int:
        return dice.roll(purpose, sides, day, number)

    moment, late, again = roll("moment", DAY_SECONDS), roll("late", 100), roll("again", 100)
    first_arrival = {0: 1, 1: 1, 2: 2, 3: 3}.get(late, 1 if moment >= LATE_EVENING else 0)
    customer, status = roll("customer", customers) + 1, STATUSES[roll("status", 3)]
    cents = roll("amount", CENTS_RANGE) + CENTS_FROM
    yield Delivery(first_arrival, moment, customer, status, cents)
    if again >= REDELIVERED:
        return
    arrives = max(roll("again on", LATEST_ARRIVAL_DAYS + 1), 1 if moment >= LAST_HOUR else 0)
    if again >= DUPLICATED:
        moment += roll("delay", 3600) + 1
        if roll("change", 2) == 0:
            cents = roll("new amount", CENTS_RANGE) + CENTS_FROM
        else:
            status = "cancelled"
    yield Delivery(arrives, moment, customer, status, cents)
