"""The jobs that are killed: one step that copies a day of `raw` into a table, by each write pattern."""

from __future__ import annotations

import os
import signal
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Retry, Table, Whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from twice import Window

# Names a file in the environment: a job that can be held waits until it exists.
HOLD = "TWICE_TEST_HOLD"
PATIENCE = 120.0
# S01, a tenth of it: the orders of a day, after how many the first attempt dies, rows per staged batch.
DAY_ROWS, DEATH, BATCH = 25_000, 18_000, 5_000


def pipeline(kind: str, raw: str, target: str) -> Pipeline:
    """Build a pipeline for a write pattern, or for a way of being slow."""
    source = Table(raw, partition=Day("d"))
    table = {
        "merge": lambda: Table(target, key=["id"], write=Merge(version="u")),
        "insert": lambda: Table(target, partition=Day("d"), key=["id"], write=InsertOnly()),
        "whole": lambda: Table(target, key=["id"], write=Whole()),
    }.get(kind, lambda: Table(target, partition=Day("d"), key=["id"], write=Overwrite(), schema=_schema(kind)))()
    made = Pipeline("crash", grain=Day)
    if kind == "extract":
        made.extract(writes=table)(orders)
    else:
        step = {"held": held, "slow": slow}.get(kind, copied)
        retry = Retry(attempts=1) if kind == "once" else Retry()
        asks = "" if step is copied else "the environment names the file that it waits for"
        made.step(reads={"raw": source}, writes=table, retry=retry, nondeterministic=asks)(step)
    return made


def _schema(kind: str) -> str | None:
    return "id BIGINT, d DATE, v DECIMAL(12,2)" if kind == "extract" else None


def copied(raw: DataFrame) -> DataFrame:
    """Copy the day."""
    return raw


def held(raw: DataFrame) -> DataFrame:
    """Copy the day once the test says go."""
    wait_for(os.environ[HOLD])
    return raw


def slow(raw: DataFrame) -> DataFrame:
    """Copy the day; the rows come out of Spark's tasks only once the test says go."""
    go = os.environ[HOLD]

    # Everything that the workers need is inside: they do not import the tests.
    def passed(value: int) -> int:
        import time
        from pathlib import Path

        Path(go + ".reached").touch()
        until = time.monotonic() + 60
        while not Path(go).exists() and time.monotonic() < until:
            time.sleep(0.05)
        return value

    return raw.withColumn("id", F.udf(passed, "bigint", useArrow=False)("id"))


def orders(window: Window) -> Iterator[dict[str, object]]:
    """Yield a day of orders; die on the way if the environment says so, as S01 tells it."""
    for number in range(DAY_ROWS):
        if number == DEATH and os.environ.get(HOLD) == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"id": number, "d": window.start.date(), "v": Decimal(number % 1000) / 4}


def wait_for(path: str) -> None:
    """Wait until a file exists."""
    until = time.monotonic() + PATIENCE
    while not Path(path).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"nobody made {path}")
        time.sleep(0.02)
