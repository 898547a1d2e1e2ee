"""What the shop's source systems deliver on a date: deterministic, with everything real feeds do wrong.

An order of business day D is delivered once or twice, on any of the ingestion dates D … D+3: late (an
order of 23:59 arrives at 00:03), as an exact duplicate, or as a correction with a newer `updated_at`,
which may overtake its original. What identifies an order (id, customer, time) never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.shop.dice import Dice

SEED = 7
LATEST_ARRIVAL_DAYS = 3
STATUSES = ("placed", "paid", "shipped", "cancelled")
REGIONS = ("africa", "americas", "asia", "europe", "oceania")

DAY_SECONDS = 86_400
LATE_EVENING = DAY_SECONDS - 5 * 60  # what is ordered after 23:55 arrives after midnight
LAST_HOUR = DAY_SECONDS - 60 * 60  # a correction follows within the hour, so perhaps on the next day
DUPLICATED, REDELIVERED = 2, 5  # of 100 orders 2 come twice unchanged, 3 more come again corrected
CENTS_FROM, CENTS_RANGE = 100, 50_000

_EPOCH = date(1970, 1, 1)
_SLOTS = (LATEST_ARRIVAL_DAYS + 1) * 2  # possible deliveries of an order: four days, original and second
_ARRIVAL = f"""CASE
    WHEN again AND redelivery >= {REDELIVERED} THEN NULL
    WHEN again THEN greatest(again_on, int(moment >= {LAST_HOUR}))
    WHEN late < 4 THEN greatest(late, 1)
    ELSE int(moment >= {LATE_EVENING}) END"""


def epoch_day(day: date) -> int:
    """Count the days since 1970-01-01."""
    return (day - _EPOCH).days


def order_id_of(day: date, number: int) -> int:
    """Return the id of the n-th order of a business day, readable as date and number."""
    return int(f"{day:%Y%m%d}") * 100_000_000 + number


def orders_feed(
    spark: SparkSession,
    ingestion_date: date,
    orders_per_day: int,
    seed: int = SEED,
    customers: int = 500,
) -> DataFrame:
    """Return what the order system delivers on `ingestion_date`, without a row passing through Python."""
    dice, day, number = Dice(seed), F.col("day"), F.col("number")

    def roll(purpose: str, sides: int) -> Column:
        return dice.column(purpose, sides, day, number)

    # Every order of the four days has eight slots; those in which it arrives on this date are kept.
    slots = spark.range(orders_per_day * _SLOTS).selectExpr(
        "id AS delivery_no",
        f"id div {_SLOTS} AS number",
        "id % 2 = 1 AS again",
        f"id div 2 % {LATEST_ARRIVAL_DAYS + 1} AS days_later",
        f"{epoch_day(ingestion_date)} - days_later AS day",
    )
    arrived = slots.withColumns(
        {
            "moment": roll("moment", DAY_SECONDS),
            "late": roll("late", 100),
            "redelivery": roll("again", 100),
            "again_on": roll("again on", LATEST_ARRIVAL_DAYS + 1),
        }
    ).where(f"days_later = {_ARRIVAL}")
    change = F.when(F.expr(f"again AND redelivery >= {DUPLICATED}"), roll("change", 2))
    cents = F.when(change == 0, roll("new amount", CENTS_RANGE)).otherwise(roll("amount", CENTS_RANGE))
    status = F.array(*[F.lit(name) for name in STATUSES[:3]])[roll("status", 3).cast("int")]
    ordered = day * DAY_SECONDS + F.col("moment")
    updated = F.when(change.isNotNull(), ordered + roll("delay", 3600) + 1).otherwise(ordered)
    return arrived.select(
        "delivery_no",
        (_date_digits(day) * 100_000_000 + number).alias("order_id"),
        (roll("customer", customers) + 1).alias("customer_id"),
        F.timestamp_seconds(ordered).alias("ordered_at"),
        F.timestamp_seconds(updated).alias("updated_at"),
        F.when(change == 1, "cancelled").otherwise(status).alias("status"),
        ((cents + CENTS_FROM).cast("decimal(12,0)") / 100).cast("decimal(12,2)").alias("amount_usd"),
        F.lit(ingestion_date).alias("ingestion_date"),
    )


def _date_digits(day: Column) -> Column:
    calendar = F.date_from_unix_date(day.cast("int"))
    return (F.year(calendar) * 10_000 + F.month(calendar) * 100 + F.dayofmonth(calendar)).cast("bigint")


def customers_feed(
    window_date: date, customers: int, seed: int = SEED, opening: date = date(2026, 4, 25)
) -> Iterator[dict[str, object]]:
    """Yield the customer rows delivered on a date: all on the opening day, then those that are new or changed.

    Some customers change twice in a day; then the older version is delivered after the newer one.
    """
    dice, day, age = Dice(seed), epoch_day(window_date), (window_date - opening).days
    joining = max(1, customers // 100)
    known = customers + joining * age if age > 0 else customers
    for customer in range(1, known + 1) if age >= 0 else ():
        new = age == 0 or customer > known - joining
        if new or dice.roll("customer changed", 100, day, customer) < 3:
            yield _customer(dice, window_date, customer, DAY_SECONDS // 2)
            if dice.roll("changed twice", 10, day, customer) == 0:
                yield _customer(dice, window_date, customer, 0)


def _customer(dice: Dice, day: date, customer: int, not_before: int) -> dict[str, object]:
    moment = epoch_day(day) * DAY_SECONDS + not_before
    moment += dice.roll("customer moment", DAY_SECONDS // 2, moment, customer)
    return {
        "customer_id": customer,
        "email": f"customer{customer}.{moment}@example.com",
        "region": REGIONS[dice.roll("region", len(REGIONS), moment, customer)],
        "updated_at": datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=moment),
        "ingestion_date": day,
    }
