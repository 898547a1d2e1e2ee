"""Making the class-data archive of Java: `twice doctor --warm`.

Spark is started in a process of its own, as the profile starts it, and does once what runs do: with stores of the same
types in a temporary folder, so that nothing of the project is read or written. When its Java ends, it writes the
archive; another Java must accept it before it gets its name. That takes all cores of a small machine for a minute or
two, so no run does it by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from twice import config as configuration
from twice.config import Config, StoreConfig
from twice.engine.plan import plan
from twice.engine.run import Runtime, execute
from twice.engine.spark import classes, jars, jvm, session
from twice.engine.stores import Stores
from twice.errors import EnvironmentProblem, TwiceError
from twice.ledger import open_ledger
from twice.model.grains import Day
from twice.model.patterns import Merge, Overwrite
from twice.model.pipelines import Pipeline
from twice.model.tables import Table
from twice.model.windows import Window
from twice.store.registry import store_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from twice.engine.spark.classes import Archive

_DAY = "2026-04-25"
_LONGEST = 900
_COLUMNS = "id BIGINT, day DATE, name STRING, n DOUBLE, version BIGINT"
# What decides how Java starts, and how much memory it has; the class path of a profile allows no archive at all.
_OF_JAVA = (
    "spark.master",
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraLibraryPath",
)


def make(config: Config, report: Callable[[str], None] = lambda _line: None) -> Path:
    """Make the archive that belongs to a profile's way to start Spark; one that Java accepts stays as it is."""
    found = session.class_archive(config)
    if isinstance(found, str):
        raise EnvironmentProblem(
            f"no class-data archive can be used here: {found}",
            unchanged="Spark starts without one, as before",
            next_step="twice doctor --fetch" if "fetched" in found else "twice doctor",
        )
    try:
        there = found.file
        if there is not None and not session.refusal(config, found, there):
            report(f"the class-data archive already exists: {there}")
            return there
        with classes.workplace() as place:
            return _made(config, found, place / "archive.jsa", report)
    except subprocess.TimeoutExpired as error:
        raise _not_made(f"Java had not ended after {error.timeout:.0f} seconds") from None
    except OSError as error:
        raise _not_made(f"{classes.folder()} cannot be written: {error.strerror}") from None


def _made(config: Config, found: Archive, written: Path, report: Callable[[str], None]) -> Path:
    report("making the class-data archive of Java: Spark runs once on small tables, a minute or two …")
    if left := _left_out(config):
        report(f"not among them: {', '.join(left)}; a table on this machine would need jars that the profile lacks")
    _run_apart(config, written)
    if refused := session.refusal(config, found, written):
        raise _not_made(f"Java does not accept it: {refused}")
    return classes.keep(found, written)


def _run_apart(config: Config, written: Path) -> None:
    """Run `main` in a process of its own; however this ends, neither it nor its Java outlives it."""
    source = str(config.source) if config.source is not None else ""
    command = [sys.executable, "-m", __name__, source, config.profile, str(written)]
    process = subprocess.Popen(
        command,
        cwd=config.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, printed = process.communicate(timeout=_LONGEST)
    finally:
        _end_group(process)
    if process.returncode or not written.is_file():
        reason = _reason(written)
        last = (printed.strip().splitlines() or ["this Java writes none"])[-1]
        raise _not_made(reason.read_text(encoding="utf-8") if reason.is_file() else last)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End what is left of a process and of those that it has started."""
    for ending, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 60)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, ending)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def _reason(written: Path) -> Path:
    return written.with_suffix(".reason")


def _not_made(reason: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the class-data archive could not be made: {reason}",
        unchanged="Spark starts without one, as before",
        next_step=f"df -h {classes.folder().parent}; with 400 MB free there: twice doctor --warm",
    )


def main(source: str, profile: str, written: Path) -> None:
    """Use Spark as runs do, and end it: its Java then leaves the archive behind."""
    try:
        given = configuration.load(Path(source) if source else None, profile, start=Path(Path.cwd().anchor))
        config = elsewhere(given, written.parent)
        spark = session.start(config, archive_to=written)
        try:
            _use(spark, config)
        finally:
            # Java writes the archive after everything else.
            jvm.end(spark)
    except TwiceError as error:
        _reason(written).write_text(error.message.partition("\n")[0], encoding="utf-8")
        raise SystemExit(1) from None


def elsewhere(config: Config, folder: Path) -> Config:
    """Return a configuration that starts Java with the same jars and options, and writes to this folder only.

    Its stores have names of their own, and of the profile's settings only those remain that decide how Java starts:
    everything that leads to a real catalog is left out.
    """
    import pyspark

    packages = config.packages
    if packages is None:
        packages = jars.default_packages(pyspark.__version__, config.stores.values())
    brought = {twin.name: twin for twin in _twins(config, folder).values()}
    spark = {name: value for name, value in config.spark.items() if name in _OF_JAVA}
    spark["spark.sql.warehouse.dir"] = str(folder / "spark-warehouse")
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    return replace(config, root=folder, stores=brought, spark=spark, packages=packages, ledger=ledger, pools={})


def _twins(config: Config, folder: Path) -> dict[str, StoreConfig]:
    """Return stores of the same types in a folder, by the names of those that they stand for."""
    import pyspark

    def packages(stores: Iterable[StoreConfig]) -> set[str]:
        return {*jars.default_packages(pyspark.__version__, stores)}

    brought = packages(config.stores.values()) if config.packages is None else {*config.packages}
    found = {}
    for number, store in enumerate(config.stores.values()):
        local = store_type(store.type).local
        if local is not None and local.stands_for(store):
            name = f"twice_warm_{number}"
            twin = StoreConfig(name, store.type, local.filled(folder, name))
            if packages([twin]) <= brought:
                found[store.name] = twin
    return found


def _left_out(config: Config) -> list[str]:
    """Name the stores that tables are written to, and whose classes are loaded only in part."""
    written = [store.name for store in config.stores.values() if store_type(store.type).local is not None]
    twins = _twins(config, config.root)
    return [name for name in written if name not in twins]


def _use(spark: SparkSession, config: Config) -> None:
    """Load what runs load: each store's tables written, merged and found unchanged, files read, joins, windows."""
    ledger = open_ledger(config.ledger)
    runtime = Runtime(spark, Stores(config), ledger, config.lease)
    for store in config.stores:
        pipeline = _pipeline(store)
        window = Window(pipeline.grain.parse(_DAY, pipeline.zone), pipeline.grain.parse("2026-04-26", pipeline.zone))
        for _ in range(2):
            done = execute(runtime, pipeline, plan(pipeline, window))
            if done.error is not None:
                raise done.error
    rows = spark.createDataFrame([(1, "a", 1.5), (2, "b", None)], "id bigint, name string, n double")
    for kind in ("parquet", "json", "csv"):
        path = f"{config.root}/files-{kind}"
        rows.write.format(kind).save(path)
        spark.read.format(kind).schema(rows.schema).load(path).join(rows, "name").count()
    rows.createOrReplaceTempView("given")
    spark.sql("SELECT name, row_number() OVER (PARTITION BY name ORDER BY id) FROM given").collect()


def _pipeline(store: str) -> Pipeline:
    """Return a pipeline with a table of days, one that is merged into, and a summary."""
    from pyspark.sql import functions as F

    found = Pipeline("warm", grain=Day)
    given = Table(f"{store}.warm.given", partition=Day("day"), key="id", write=Overwrite(), schema=_COLUMNS)
    newest = Table(f"{store}.warm.newest", key="id", write=Merge(version="version"))
    summary = Table(f"{store}.warm.summary", partition=Day("day"), key=["day", "name"], write=Overwrite())

    @found.extract(writes=given)
    def rows(window: Window) -> Iterator[Mapping[str, object]]:
        for number in range(4):
            yield {"id": number, "day": window.start.date(), "name": f"n{number % 2}", "n": 1.5, "version": 1}

    @found.step(reads={"given": given}, writes=newest)
    def merged(given: DataFrame) -> DataFrame:
        return given.select("id", "name", "n", "version").distinct()

    @found.step(reads={"given": given, "newest": newest.latest()}, writes=summary)
    def summed(given: DataFrame, newest: DataFrame) -> DataFrame:
        joined = given.join(newest.select("id", F.col("n").alias("m")), "id", "left")
        return joined.where(F.col("day") >= F.lit(date(2026, 1, 1))).groupBy("day", "name").agg(F.sum("m").alias("sum"))

    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
