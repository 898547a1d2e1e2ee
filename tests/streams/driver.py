"""A child process that runs a stream on the Spark of the test, and may be killed at a fail point."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import stamina

from tests.streams.clicks import LEVELS, SCHEMA, dated
from tests.support.processes import attach
from twice import Day, InsertOnly, Pipeline, Table
from twice import config as configuration
from twice.api import runtime
from twice.errors import TwiceError
from twice.streams.control import Request, run_stream


@dataclass(frozen=True)
class StreamOrder:
    """One run of the stream of clicks, as the test wants it."""

    config: str
    table: str
    level: str
    fail_point: str = ""
    at: int = 1
    told: str = ""
    gateway: tuple[int, str] | None = None


def pipeline_of(order: StreamOrder) -> Pipeline:
    """Declare the stream."""
    pipeline = Pipeline("web", grain=Day)
    table = Table(order.table, partition=Day("d"), key=["event_id"], write=InsertOnly(on_conflict="keep"))
    pipeline.stream(
        reads=Table("landing.web.clicks", schema=SCHEMA),
        writes=table,
        dedup=LEVELS[order.level],
        options={"maxFilesPerTrigger": "1"},
        name="clicks",
    )(dated)
    return pipeline


def act(order: StreamOrder) -> None:
    """Read everything that was delivered, then exit."""
    os.environ["TWICE_FAILPOINT"], os.environ["TWICE_FAILPOINT_AT"] = order.fail_point, str(order.at)
    stamina.set_testing(True, attempts=100, cap=True)
    config, pipeline = configuration.load(Path(order.config)), pipeline_of(order)
    assert order.gateway is not None
    code = 1
    with Path(order.told).open("a", buffering=1) as told, runtime(config, spark=attach(*order.gateway)) as shop:
        try:
            done = run_stream(
                shop, pipeline, pipeline.find_stream(None), config.checkpoints, Request(available_now=True)
            )
            told.write(json.dumps({"result": done.to_json()}) + "\n")
            code = 0
        except TwiceError as error:
            told.write(json.dumps({"error": str(error)}) + "\n")
    os._exit(code)
