"""Making the class-data archive of Java: `twice doctor --warm`.

Spark is started in a process of its own, as the profile starts it, and does once what runs do: with stores of the same
types in a temporary folder, so that nothing of the project is read or written. When its Java ends, it writes the
archive; another Java must accept it before it gets its name. That takes all cores of a small machine for a minute or
two, which is why no run does it on the side.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
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

_DAY = "2026-04-25"
_LONGEST = 900
_COLUMNS = "id BIGINT, day DATE, name STRING, n DOUBLE, version BIGINT"
_ENDING = "-XX:ArchiveClassesAtExit"
# What decides how Java starts, and how much memory it has; the class path of a profile allows no archive at all.
_OF_JAVA = (
    "spark.master",
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraLibraryPath",
)


def make(config: Config) -> Path:
    """Make the archive that belongs to a profile's way to start Spark; one that is there stays as it is."""
    found = session.class_archive(config)
    if isinstance(found, str):
        raise EnvironmentProblem(
            f"no class-data archive can be used here: {found}",
            unchanged="Spark starts without one, as before",
            next_step="nothing, as runs work without it; or remove what stands in its way",
        )
    if found.file is not None:
        return found.file
    try:
        written = classes.partial(found)
    except OSError as error:
        raise _not_made(f"{classes.folder()} cannot be written: {error.strerror}") from None
    try:
        _run_apart(config, written)
        return classes.keep(found, written)
    except OSError as error:
        raise _not_made(str(error.strerror)) from None
    finally:
        written.unlink(missing_ok=True)


def _run_apart(config: Config, written: Path) -> None:
    source = str(config.source) if config.source is not None else ""
    command = [sys.executable, "-m", __name__, source, config.profile, str(written)]
    try:
        done = subprocess.run(
            command, cwd=config.root, capture_output=True, text=True, check=False, timeout=_LONGEST, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise _not_made(f"Spark had not ended after {_LONGEST} seconds") from None
    if done.returncode or not written.is_file():
        raise _not_made((done.stderr.strip().splitlines() or ["this Java writes none"])[-1])


def _not_made(reason: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the class-data archive could not be made: {reason}",
        unchanged="Spark starts without one, as before",
        next_step=f"nothing, as runs work without it; or free some space in {classes.folder()} and try again",
    )


def main(source: str, profile: str, written: Path) -> None:
    """Use Spark as runs do, and end it: its Java then leaves the archive behind."""
    given = configuration.load(Path(source) if source else None, profile, start=Path(Path.cwd().anchor))
    with tempfile.TemporaryDirectory(prefix="twice-warm-") as name:
        config = elsewhere(given, Path(name))
        spark = session.start(config, archive_to=written)
        try:
            path, options = jvm.started_with(spark)
            java = path, [each for each in options if _ENDING not in each]
            _use(spark, config)
        except TwiceError as error:
            raise SystemExit(error.message.partition("\n")[0]) from None
        finally:
            # Java writes the archive after everything else.
            jvm.end(spark)
    _require_accepted(written, *java)


def elsewhere(config: Config, folder: Path) -> Config:
    """Return a configuration that starts Java with the same jars and options, and writes to this folder only.

    Its stores have names of their own, and of the profile's settings only those remain that decide how Java starts:
    whatever leads to a real catalog is left behind.
    """
    import pyspark

    packages = config.packages
    if packages is None:
        packages = jars.default_packages(pyspark.__version__, config.stores.values())
    found = (_twin(store, f"twice_warm_{number}", folder) for number, store in enumerate(config.stores.values()))
    twins = [twin for twin in found if twin is not None]
    brought = {
        twin.name: twin for twin in twins if {*jars.default_packages(pyspark.__version__, [twin])} <= {*packages}
    }
    spark = {name: value for name, value in config.spark.items() if name in _OF_JAVA}
    spark["spark.sql.warehouse.dir"] = str(folder / "spark-warehouse")
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    return replace(config, root=folder, stores=brought, spark=spark, packages=packages, ledger=ledger, pools={})


def _twin(store: StoreConfig, name: str, folder: Path) -> StoreConfig | None:
    """Return a store of the same type in a folder; None where there is none."""
    local = store_type(store.type).local
    if local is None or not local.stands_for(store):
        return None
    return StoreConfig(name, store.type, local.filled(folder, name))


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


def _require_accepted(written: Path, class_path: str, options: list[str]) -> None:
    """Let a Java that must have the archive, and that adds up its checksums, map it in."""
    java = session.java_version()
    if java is None or not written.is_file():
        return
    strict = ["-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={written}"]
    done = subprocess.run(
        [java[0], *options, *strict, "-cp", class_path, "-version"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        with suppress(OSError):
            written.unlink()
        raise SystemExit(f"Java does not accept it: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
