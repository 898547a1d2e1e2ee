from __future__ import annotations

from twice import Day, Hour, InsertOnly, Merge, Overwrite, Pipeline, Table, Whole, days, gates
from twice.model.contracts import contracts


def shop() -> Pipeline:
    pipeline = Pipeline("shop", grain=Day, time_zone="Europe/Berlin", description="What the shop sold.")
    raw = Table("lake.raw.orders", partition=Day("ingestion_date"), event_time="ordered_at")
    customers = Table(
        "lake.core.customers",
        key=["id"],
        write=Merge(version="updated_at", tombstone="gone"),
        personal=["email"],
        mutable=["email"],
    )
    facts = Table(
        "lake.core.facts",
        partition=Day("order_date"),
        key=["order_id"],
        write=Overwrite(),
        dimensions=["tenant"],
        lateness=days(3),
        owner="sales",
        description="One row per order.",
        gates=[gates.accepted("status", ["a|b", "c"]), gates.sql("select 1")],
    )
    report = Table("lake.mart.report", write=Whole())
    pipeline.sql("customers", reads={"raw": raw}, writes=customers, query="select 1")
    pipeline.sql(
        "facts",
        reads={"raw": raw.window(lookback=days(7)), "customers": customers.latest()},
        writes=facts,
        query="select 1",
        nondeterministic="the source answers as it likes",
    )
    pipeline.sql("report", reads={"facts": facts}, writes=report, query="select 1")
    return pipeline


GOLDEN = """\
# Contracts of shop

What the shop sold.

One run owns one day, in the time zone Europe/Berlin.

## lake.raw.orders

| | |
|---|---|
| Written by | another writer: this pipeline only reads it |
| Owner | no owner is named |
| Partition | ingestion_date by day |
| Time-bound parameter | ingestion_date, one day of Europe/Berlin |
| Business key | none |
| Event time | ordered_at |
| Personal columns | none |
| Mutable columns | none |

## lake.core.customers

| | |
|---|---|
| Written by | SQL step customers |
| Owner | no owner is named |
| Partition | none: one scope is the whole table |
| Time-bound parameter | none: the run's window decides what is read, not what is replaced |
| Business key | id |
| Write pattern | merge on the key, newest updated_at wins, deleted where gone |
| Lateness | none |
| Gates | id unique and not null |
| Reads | raw = lake.raw.orders in the window |
| Personal columns | email |
| Mutable columns | email |

## lake.core.facts

One row per order.

| | |
|---|---|
| Written by | SQL step facts |
| Owner | sales |
| Partition | order_date by day |
| Time-bound parameter | order_date, one day of Europe/Berlin |
| Dimensions | tenant |
| Business key | order_id |
| Write pattern | overwrite the scope |
| Lateness | 3 days |
| Gates | order_id unique and not null in each partition; status is one of 'a\\|b', 'c'; no rows from: select 1 |
| Reads | raw = lake.raw.orders in the window, 7 days back, with late rows from the next 3 \
days of ingestion_date; customers = lake.core.customers as of the run |
| Personal columns | none |
| Mutable columns | none |
| Not deterministic, because | the source answers as it likes |

## lake.mart.report

| | |
|---|---|
| Written by | SQL step report |
| Owner | no owner is named |
| Partition | none: one scope is the whole table |
| Time-bound parameter | none: the run's window decides what is read, not what is replaced |
| Business key | none |
| Write pattern | replace the whole table |
| Lateness | none |
| Gates | none |
| Reads | facts = lake.core.facts in the window |
| Personal columns | none |
| Mutable columns | none |
"""


def test_s43_the_contract_of_a_pipeline():
    assert contracts([shop()]) == GOLDEN


def test_s43_equal_definitions_give_equal_text():
    assert contracts([shop(), shop()]) == GOLDEN + "\n" + GOLDEN


def test_hours_are_hours_of_utc_whatever_the_zone():
    pipeline = Pipeline("p", grain=Hour, time_zone="Asia/Tokyo")
    events = Table(
        "lake.raw.events",
        partition=Hour("at"),
        key=["id"],
        write=InsertOnly(on_conflict="keep"),
        valid=("a", "b"),
        schema="id BIGINT",
    )

    @pipeline.extract(writes=events)
    def fetch(window):
        return []

    text = contracts([pipeline])
    assert "| Time-bound parameter | at, one hour of UTC |" in text
    assert "| Written by | extract fetch |" in text
    assert "| Reads | an external source |" in text
    assert "insert each key once, other content: keep" in text
    assert "| Valid | from a to b |" in text
    assert "| Schema | id BIGINT |" in text
