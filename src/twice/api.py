"""The same runs as `twice run`, from Python."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from twice import config as configuration
from twice.effects.paying import pay
from twice.engine import session
from twice.engine.accepted_gates import accepted_gates
from twice.engine.events import Listener, ignore
from twice.engine.plan import plan
from twice.engine.run import RunResult, Workshop, execute
from twice.engine.stores import Stores
from twice.errors import UsageError
from twice.ledger import open_ledger
from twice.model.windows import Window
from twice.streams.control import Request
from twice.streams.control import run_stream as run_until_stopped
from twice.streams.progress import StreamResult, Tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from twice.config import Config
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline


def run(
    pipeline: Pipeline,
    unit: str | Window | None = None,
    *,
    from_: str | None = None,
    to: str | None = None,
    steps: Sequence[str] | None = None,
    dimensions: Mapping[str, str] | None = None,
    skip_fresh: bool = False,
    wait: float = 0.0,
    accept_late: bool = False,
    accept: Sequence[str] = (),
    because: str = "",
    tags: Mapping[str, str] | None = None,
    config: Config | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
    listener: Listener = ignore,
) -> RunResult:
    """Bring a pipeline up to date for one window, in one run; raise what stopped it.

    `unit` is one unit of the pipeline's grain, such as `"2026-04-25"`, or any `Window` made of whole units;
    `from_` and `to` (exclusive) give a window of several units as one scope. `accept` names gates that may fail in
    this run; `because` says why, and is recorded with it.
    """
    window = asked_window(pipeline, unit, from_, to)
    stages = plan(pipeline, window, dimensions=dimensions, steps=steps)
    accepted = accepted_gates(stages, accept, because)
    with workshop(config or configuration.load(), spark=spark, ledger=ledger, listener=listener) as shop:
        result = execute(
            shop,
            pipeline,
            stages,
            skip_fresh=skip_fresh,
            wait=wait,
            accept_late=accept_late,
            accept=accepted,
            tags=tags,
        )
    if result.error:
        raise result.error
    return result


def run_stream(
    pipeline: Pipeline,
    name: str | None = None,
    *,
    available_now: bool = False,
    resume_from_table: bool = False,
    stop: threading.Event | None = None,
    tell: Tell = lambda _: None,
    tags: Mapping[str, str] | None = None,
    config: Config | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
) -> StreamResult:
    """Run a stream until `stop` is set or `twice stream stop` is called; raise what stopped it otherwise.

    With `available_now` it reads what is there now, then ends. `tell` is called after each batch. A stream that was
    stopped by `stop` raises `Interrupted`.
    """
    found = config or configuration.load()
    request = Request(available_now, resume_from_table, "", tags or {}, stop or threading.Event(), tell)
    with workshop(found, spark=spark, ledger=ledger) as shop:
        return run_until_stopped(shop, pipeline, pipeline.find_stream(name), found.checkpoints, request)


@contextmanager
def workshop(
    config: Config,
    *,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
    listener: Listener = ignore,
) -> Iterator[Workshop]:
    """Open what runs share; Spark is stopped at the end only if it was started here."""
    mine = spark is None
    if mine:
        session.check(config)
    theirs = ledger
    ledger = theirs or open_ledger(config.ledger)
    spark = spark or session.start(config)
    if theirs is None:
        session.check_ledger(config, spark.sparkContext.master or "")
    try:
        yield Workshop(spark, Stores(config), ledger, config.lease, listener, pay)
    finally:
        if mine:
            with suppress(Py4JError, OSError):  # a signal to the whole group ends Spark before us
                spark.stop()


def asked_window(pipeline: Pipeline, unit: str | Window | None, from_: str | None, to: str | None) -> Window:
    """Read the window that a caller asks for, in one of its two forms."""
    if unit is not None and (from_ is not None or to is not None):
        raise UsageError("give either one unit, or from_= and to=, not both", safe="nothing was run")
    if isinstance(unit, Window):
        return unit
    if isinstance(unit, str):
        return pipeline.grain.unit(unit, pipeline.zone)
    if unit is not None:
        raise UsageError(
            f'a unit must be a text such as "2026-04-25" or a Window, got {unit!r}', safe="nothing was run"
        )
    if from_ is None or to is None:
        raise UsageError(
            'a run needs a window: one unit, such as "2026-04-25", or from_= and to= (exclusive); there is no default',
            safe="nothing was run",
        )
    return Window(pipeline.grain.parse(from_, pipeline.zone), pipeline.grain.parse(to, pipeline.zone))
