"""What the command line does, from Python.

Spark and the database are imported where they are used: `status` and `open_ledger` work without Spark.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twice import config as configuration
from twice.config import Config
from twice.engine.events import Listener, ignore
from twice.errors import UsageError
from twice.loading import all_pipelines, configured_name, load_pipelines
from twice.model.pipelines import step_of
from twice.model.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from twice.backfills.events import BackfillEvent
    from twice.backfills.summary import BackfillResult
    from twice.engine.operations.undo import UndoResult
    from twice.engine.run import RunResult, Runtime
    from twice.engine.status import Status
    from twice.ledger import Ledger, RunInfo
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.streams.progress import Progress, StreamResult


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
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
    listener: Listener = ignore,
) -> RunResult:
    """Bring a pipeline up to date for one window, in one run; raise the error that stopped it.

    `unit` is one unit of the pipeline's grain, such as `"2026-04-25"`, or any `Window` made of whole units;
    `from_` and `to` (exclusive) give a window of several units as one scope. `accept` names gates that may fail in
    this run; `because` says why, and is recorded with it.
    """
    from twice.engine.attempt.accepted_gates import accepted_gates
    from twice.engine.plan import plan

    window = asked_window(pipeline, unit, from_, to)
    planned_steps = plan(pipeline, window, dimensions=dimensions, steps=steps)
    accepted = accepted_gates(planned_steps, accept, because)
    with runtime(load_config(config), spark=spark, ledger=ledger, listener=listener) as shop:
        from twice.engine.run import execute

        result = execute(
            shop,
            pipeline,
            planned_steps,
            skip_fresh=skip_fresh,
            wait=wait,
            accept_late=accept_late,
            accept=accepted,
            tags=tags,
        )
    if result.error:
        raise result.error
    return result


def backfill(
    pipeline: Pipeline,
    from_: str,
    to: str,
    *,
    steps: Sequence[str] = (),
    downstream: bool = False,
    upstream: bool = False,
    dimensions: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
    order: Literal["forward", "backward"] = "forward",
    parallel: int = 2,
    chunk: int | None = None,
    pool: str | None = None,
    refetch: bool = False,
    accept_late: bool = False,
    shadow: bool = False,
    effects: bool = False,
    tags: Mapping[str, str] | None = None,
    progress: Callable[[BackfillEvent], None] | None = None,
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
    listener: Listener = ignore,
) -> BackfillResult:
    """Build what is missing, failed or stale from `from_` to `to` (exclusive), many partitions per Spark job.

    The options are those of `twice backfill`; `only=["all"]` also rebuilds what is fresh, and `chunk` is the number of
    partitions per job. A partition that fails does not stop the rest; if any was not built, the error raised at the
    end lists them, and what was built stays published. `progress` is called with every change of state. Another
    process can watch, pause or cancel the backfill with `twice backfill`; `twice backfill resume` needs the pipeline
    in `[pipelines]` of twice.toml.
    """
    from twice.backfills.request import ONLY, Request, around, check, known_pool, range_of
    from twice.ledger import find_ledger

    found = load_config(config)
    request = Request(
        place=configured_name(found, pipeline),
        window=range_of(pipeline, from_, to),
        steps=around(pipeline, _names(steps), downstream=downstream, upstream=upstream),
        dimensions=dict(dimensions or {}),
        only=_names(only) if only is not None else ONLY,
        order=order,
        parallel=parallel,
        chunk=chunk,
        pool=known_pool(found, pool),
        tags=dict(tags or {}),
        refetch=refetch,
        accept_late=accept_late,
        shadow=shadow,
        effects=effects,
    )
    check(pipeline, request, ledger or find_ledger(found.ledger))
    with runtime(found, spark=spark, ledger=ledger, listener=listener) as shop:
        from twice.backfills.api import Project, silent

        result = Project(shop, pipeline, progress or silent).start(request)
    result.raise_failures()
    return result


def status(
    pipeline: Pipeline | None = None,
    *,
    from_: str | None = None,
    to: str | None = None,
    only_stale: bool = False,
    live: bool = False,
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
) -> Status:
    """Return for each step and partition whether it is done, failed, running, missing or stale, and why.

    Without `pipeline`, for all pipelines of twice.toml; without a range, for everything between the first and the
    last known partition. It is read from the ledger alone; with `live=True`, tables and inputs are checked too,
    through Spark where their metadata cannot be read without it.

    >>> from twice import Day, Pipeline, status
    >>> status(Pipeline("shop", grain=Day))
    Status(shop: no partitions)
    """
    from twice.engine.status import bounds, collect, collect_without_spark
    from twice.ledger import find_ledger

    found = load_config(config)
    pipelines = [pipeline] if pipeline is not None else all_pipelines(found)
    if (from_ or to) and len(pipelines) > 1:
        raise UsageError("from_= and to= need one pipeline: a range is read by its grain")
    for each in pipelines:
        bounds(each, from_, to)
    known = ledger or find_ledger(found.ledger)
    if not live:
        return collect(known, pipelines, from_, to, only_stale=only_stale)
    if spark is None and (peeked := collect_without_spark(found, known, pipelines, from_, to, only_stale=only_stale)):
        return peeked
    from twice.engine.status.table_state import TableState

    with runtime(found, spark=spark, ledger=ledger) as shop:
        return collect(shop.ledger, pipelines, from_, to, only_stale=only_stale, live=TableState(shop))


def undo(
    run: str | RunResult,
    *,
    steps: Sequence[str] = (),
    tables: Sequence[str] = (),
    dry_run: bool = False,
    pipeline: Pipeline | None = None,
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
) -> list[UndoResult]:
    """Put every scope that a run published back to what it held before, as a new publish.

    `run` is the id of a run, or the beginning of it, or what `run` returned. `steps` and `tables` choose some of
    them. `dry_run=True` changes nothing and returns what would be put back. The pipeline of the run is looked up in
    twice.toml, unless it is given as `pipeline`.
    """
    from twice.ledger import find_ledger

    found = load_config(config)
    asked = run if isinstance(run, str) else run.run
    info, pipelines = run_to_undo(found, ledger or find_ledger(found.ledger), asked, pipeline)
    with runtime(found, spark=spark, ledger=ledger) as shop:
        from twice.engine.operations.undo import undo as put_back

        return put_back(shop, pipelines, info.id, steps=_names(steps), tables=_names(tables), dry_run=dry_run)


def preview(
    step: Callable[..., Any] | Step,
    unit: str | Window | None = None,
    *,
    from_: str | None = None,
    to: str | None = None,
    dimensions: Mapping[str, str] | None = None,
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
) -> DataFrame:
    """Return what a step would publish for a window as a DataFrame; nothing is claimed, staged or recorded.

    `step` is the decorated function, or what `pipeline.sql` returned. Inputs are read as in a run: cut to the window
    and pinned to one version; the step cannot write and must be deterministic. An extract calls its source. Gates are
    not applied, so that rows that would fail them can be inspected. For a table that is written by key, the rows that
    would be added or replaced are returned.

    The rows are computed once and held by Spark. Without `spark`, the Spark session of this process is used, or one is
    started, which stays open for the DataFrame.
    """
    from twice.engine.plan import plan
    from twice.ledger import find_ledger
    from twice.ledger import open_ledger as opened

    declared = step_of(step)
    pipeline = declared.declared_in
    assert pipeline is not None  # noqa: S101 - every way to declare a step sets it
    window = asked_window(pipeline, unit, from_, to)
    (planned,) = plan(pipeline, window, dimensions=dimensions, steps=[declared.name])
    found = load_config(config)
    with tempfile.TemporaryDirectory(prefix="twice-preview-") as folder:
        # A project that never ran has no ledger, and a preview creates none.
        known = ledger or find_ledger(found.ledger) or opened(f"sqlite:///{folder}/ledger.db")
        from twice.engine.spark import session

        with runtime(found, spark=spark or session.start(found), ledger=known) as shop:
            from twice.engine.previewing import preview as computed
            from twice.engine.run import task_of

            return computed(task_of(shop, pipeline, planned, "preview"))


def open_ledger(url: str | None = None, *, config: Config | Path | str | None = None, create: bool = True) -> Ledger:
    """Open the ledger of the project, or the one at `url`; create it where there is none.

    >>> import tempfile
    >>> from twice import open_ledger
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     open_ledger(f"sqlite:///{directory}/ledger.db").runs.list()
    []
    """
    from twice.ledger import open_ledger as opened

    return opened(url if url is not None else load_config(config).ledger, create=create)


def run_stream(
    pipeline: Pipeline,
    name: str | None = None,
    *,
    available_now: bool = False,
    resume_from_table: bool = False,
    stop: threading.Event | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    tags: Mapping[str, str] | None = None,
    config: Config | Path | str | None = None,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
) -> StreamResult:
    """Run a stream until `stop` is set or `twice stream stop` is called; otherwise raise the error that stopped it.

    With `available_now` it reads what is there now, then ends. `progress` is called after each batch. A stream that was
    stopped by `stop` raises `Interrupted`.
    """
    found = load_config(config)
    with runtime(found, spark=spark, ledger=ledger) as shop:
        from twice.streams.control import Request
        from twice.streams.control import run_stream as run_until_stopped

        request = Request(available_now, resume_from_table, "", tags or {}, stop or threading.Event(), progress)
        return run_until_stopped(shop, pipeline, pipeline.find_stream(name), found.checkpoints, request)


@contextmanager
def runtime(
    config: Config,
    *,
    spark: SparkSession | None = None,
    ledger: Ledger | None = None,
    listener: Listener = ignore,
) -> Iterator[Runtime]:
    """Open what runs share; Spark is stopped at the end only if it was started here."""
    from twice.engine.spark import jvm, session

    if spark is None:
        session.check(config)
    else:
        jvm.require(spark)
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    from twice.effects.paying import pay
    from twice.engine.run import Runtime
    from twice.engine.stores import Stores

    theirs = ledger
    ledger = theirs or open_ledger(config.ledger)
    mine = spark is None and SparkSession.getActiveSession() is None
    spark = spark or session.start(config)
    if theirs is None:
        session.check_ledger(config, spark.sparkContext.master or "")
    try:
        yield Runtime(spark, Stores(config), ledger, config.lease, listener, pay)
    finally:
        if mine:
            with suppress(Py4JError, OSError):  # a signal to the whole group ends Spark before us
                spark.stop()


def load_config(config: Config | Path | str | None) -> Config:
    """Return a configuration as it is, from a file, or from the twice.toml of this folder or one above."""
    return config if isinstance(config, Config) else configuration.load(Path(config) if config is not None else None)


def run_to_undo(
    config: Config, ledger: Ledger | None, run: str, pipeline: Pipeline | None = None
) -> tuple[RunInfo, dict[str, Pipeline]]:
    """Find a run, and the pipelines that may own it by their names in the ledger, before Spark is started."""
    if ledger is None:
        raise UsageError(f"no run begins with {run!r}: nothing has run yet")
    info = ledger.runs.get(run)
    known = [pipeline] if pipeline is not None else load_pipelines(config).values()
    pipelines = {each.name: each for each in known}
    if info.pipeline not in pipelines:
        raise UsageError(
            f"run {info.id} belongs to the pipeline {info.pipeline}, which is not configured here",
            next_step=f"add it to [pipelines] in {config.source or 'twice.toml'}",
        )
    return info, pipelines


def asked_window(pipeline: Pipeline, unit: str | Window | None, from_: str | None, to: str | None) -> Window:
    """Read the window that a caller asks for, in one of its two forms."""
    if unit is not None and (from_ is not None or to is not None):
        raise UsageError("give either one unit, or from_= and to=, not both", unchanged="nothing was run")
    if isinstance(unit, Window):
        return unit
    if isinstance(unit, str):
        return pipeline.grain.unit(unit, pipeline.zone)
    if unit is not None:
        raise UsageError(
            f'a unit must be a text such as "2026-04-25" or a Window, got {unit!r}', unchanged="nothing was run"
        )
    if from_ is None or to is None:
        raise UsageError(
            'a run needs a window: one unit, such as "2026-04-25", or from_= and to= (exclusive); there is no default',
            unchanged="nothing was run",
        )
    return Window(pipeline.grain.parse(from_, pipeline.zone), pipeline.grain.parse(to, pipeline.zone))


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
