"""Clicks of the web shop as a stream: delivered at least once, landed once.

Every file that arrives is a part of a micro-batch, and every batch is one commit that carries its number. A click that
is delivered again, in the same file, in a later one or after a crash, is in the table once, in the day in which it
happened. `examples/unsafe/foreach_batch.py` does the same in the usual way.

export PYTHONPATH=.                             # in the folder of the repository
python -m examples.shop.click_feed examples/shop/.twice/landing/web/clicks --date 2026-04-25
twice --config examples/shop/twice.toml stream run clicks --available-now
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.shop.click_feed import PAGES, SCHEMA
from twice import Day, InsertOnly, Pipeline, Table, gates
from twice.streams import Write

clicks = Pipeline("clicks", grain=Day)

landed = Table(
    "landing.web.clicks",
    description="Clicks as the web servers deliver them: at least once, some of them late.",
    schema=SCHEMA,
)
fct_clicks = Table(
    "lake.core.fct_clicks",
    description="One row per click, in the day in which it happened.",
    partition=Day("click_date"),
    key=["event_id"],
    write=InsertOnly(on_conflict="keep"),
    gates=[gates.not_null("customer_id"), gates.accepted("page", PAGES)],
)


@clicks.stream(reads=landed, writes=fct_clicks, dedup=Write("event_id", order="received_at"), name="clicks")
def dated(events: DataFrame) -> DataFrame:
    """Give each click its day; a late one, too, goes to the day on which it happened."""
    return events.withColumn("click_date", F.to_date("happened_at"))
