"""The shop's clicks: delivered at least once, landed once; the unsafe twin doubles them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject

from examples.shop.click_feed import deliveries, distinct_clicks, write_files
from examples.shop.clicks import clicks, fct_clicks
from examples.unsafe import foreach_batch
from twice.api import runtime
from twice.config import Config
from twice.ledger import open_ledger
from twice.streams.control import Request, StreamResult, run_stream

DAY = date(2026, 4, 25)
CLICKS = 200
DELIVERED = sum(map(len, deliveries(DAY, CLICKS)))


@pytest.fixture
def callbacks(spark) -> None:
    """Let Spark call this process: the child of another test, on the same Spark, may have been called last."""
    gateway = spark.sparkContext._gateway
    if (server := vars(gateway).get("_callback_server")) is not None:
        java = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
        java.resetCallbackClient(java.getCallbackClient().getAddress(), server.get_listening_port())


@pytest.fixture
def table(spark, request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    spark.sql(f"DROP TABLE IF EXISTS {request.param} PURGE")


def in_table(spark, table: str) -> list[tuple[Any, ...]]:
    """List the clicks in a table, with every double."""
    rows = spark.newSession().sql(
        f"SELECT event_id, customer_id, page, date_format(happened_at, 'HH:mm:ss'), click_date FROM {table}"
    )
    return sorted(tuple(row) for row in rows.collect())


def expected() -> list[tuple[Any, ...]]:
    """List the clicks that happened, each once."""
    found = distinct_clicks(DAY, CLICKS).values()
    return sorted(
        (each["event_id"], each["customer_id"], each["page"], str(each["happened_at"])[11:19], DAY) for each in found
    )


def run(spark, config: Config) -> StreamResult:
    """Read everything that was delivered."""
    with runtime(config, spark=spark, ledger=open_ledger(config.ledger)) as shop:
        request = Request(available_now=True)
        return run_stream(shop, clicks, clicks.find_stream(None), config.checkpoints, request)


def test_the_feed_repeats_clicks_and_delivers_some_late():
    files = deliveries(DAY, CLICKS)
    assert files == deliveries(DAY, CLICKS)
    ids = [event["event_id"] for file in files for event in file]
    assert set(ids) == set(distinct_clicks(DAY, CLICKS))
    assert len(ids) > CLICKS
    # in the same file, in a later one, and after midnight
    assert any(len({event["event_id"] for event in file}) < len(file) for file in files)
    ids_of = [{event["event_id"] for event in file} for file in files]
    assert any(one & other for one, other in pairwise(ids_of))
    assert any(str(event["received_at"]) > "2026-04-26" for file in files for event in file)


@pytest.mark.spark
@pytest.mark.parametrize("table", [fct_clicks.name], indirect=True)
def test_s38_clicks_that_are_delivered_twice_land_once(spark, callbacks, shop_config, table):
    folder = shop_config.root / "landing" / "web" / "clicks"
    write_files(folder, DAY, CLICKS)
    first = run(spark, shop_config)
    assert in_table(spark, table) == expected()
    assert (first.rows_in, first.rows_out, first.duplicates) == (DELIVERED, CLICKS, DELIVERED - CLICKS)
    # All of it is delivered once more
    write_files(folder, DAY, CLICKS, again=1)
    again = run(spark, shop_config)
    assert in_table(spark, table) == expected()
    assert (again.rows_in, again.rows_out) == (DELIVERED, 0)


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.parametrize("table", ["lake.unsafe.clicks"], indirect=True)
def test_s39_the_unsafe_twin_appends_a_batch_that_is_delivered_again(spark, callbacks, tmp_path: Path, table):
    files = write_files(tmp_path / "landing", DAY, CLICKS)
    arguments = [table, "--landing", str(tmp_path / "landing"), "--checkpoint", str(tmp_path / "checkpoint")]
    foreach_batch.main(arguments, spark)
    assert len(in_table(spark, table)) == DELIVERED
    # The process dies after the append, before Spark has written the commit marker
    last = tmp_path / "checkpoint" / "commits" / str(len(files) - 1)
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    foreach_batch.main(arguments, spark)
    assert len(in_table(spark, table)) == DELIVERED + len(files[-1].read_text().splitlines())
