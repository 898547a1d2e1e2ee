"""The Spark of a test process: the one that runs, or a small local one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from twice import config as configuration
from twice.config import Config, StoreConfig
from twice.engine.spark import jvm, session
from twice.errors import EnvironmentProblem
from twice.store.registry import DEFAULT, store_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A handful of rows on the machine of a test.
_SMALL = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
}


def small(config: Config) -> Config:
    """Return the project's configuration for a Spark on the machine of a test."""
    return replace(config, spark={**config.spark, **_SMALL})


def running() -> SparkSession | None:
    """Return the Spark of this process, if it has one."""
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    return None if found is None or jvm.is_stopped(found) else found


def running_or_started(config: Config | None = None) -> SparkSession:
    """Return the Spark of this process; without one, start it: it then stays until the process ends."""
    return running() or session.start(small(config or project_config() or without_project()))


def project_config() -> Config | None:
    """Return the configuration of the project around the current folder, if there is one."""
    found = configuration.find(Path.cwd())
    return configuration.load(found) if found is not None else None


def without_project(stores: dict[str, StoreConfig] | None = None) -> Config:
    """Return a configuration for tests that belong to no project; without stores, one Iceberg catalog, `lake`."""
    root = empty_folder()
    found = stores or {"lake": StoreConfig("lake", DEFAULT, {})}
    return Config(root, None, "default", f"sqlite:///{root / 'ledger.db'}", stores=found)


@cache
def empty_folder() -> Path:
    """Return where the stores of no project are: nothing is written there, only to their twins in a sandbox."""
    folder = Path(tempfile.mkdtemp(prefix="twice-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def shared(config: Config) -> Iterator[SparkSession]:
    """Share one Spark between tests; only a Spark that was started here is stopped at the end."""
    session.check(small(config))
    found = running()
    if found is not None:
        yield found
        return
    started = session.start(small(config))
    try:
        yield started
    finally:
        started.stop()


def require_jars(spark: SparkSession, config: Config) -> None:
    """Refuse a Spark that was started without the jars of a store that a test writes to."""
    for store in config.stores.values():
        jars = store_type(store.type).jars
        if jars is None or not jars.java_class:
            continue
        if not jvm.knows(spark, jars.java_class):
            raise EnvironmentProblem(
                f"the Spark of this test was started without the jars of {store.type}, where store {store.name} writes",
                unchanged="nothing was run",
                next_step="use the fixture twice_spark, and name the store in twice.toml: "
                f'[stores.{store.name}] type = "{store.type}"',
            )
