"""What a run needs on this machine: each item checked, with what to do if it is missing."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from twice.engine.spark import jars
from twice.errors import EnvironmentProblem, TwiceError
from twice.ledger import find_ledger
from twice.redaction import redact
from twice.store.registry import store_type

if TYPE_CHECKING:
    from twice.config import Config
    from twice.ledger import Health, Ledger

_JAVA = 17
_SPACE = 1 << 30
_YEARS = range(2025, 2100)
# Two machines' clocks never agree to the second.
_AHEAD = timedelta(minutes=5)


@dataclass(frozen=True)
class Finding:
    """One item that was checked."""

    name: str
    ok: bool
    text: str
    next_step: str = ""

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "ok": self.ok, "text": self.text, "next_step": self.next_step}


def examine(config: Config, *, now: datetime | None = None) -> Iterator[Finding]:
    """Check everything that can be checked without Spark."""
    yield Finding("Python", True, f"{sys.version.split()[0]} at {sys.executable}")
    yield java()
    yield pyspark()
    yield jar_files(config)
    yield class_archive(config)
    if config.source is not None:
        yield configuration(config)
        yield ledger(config)
    yield clock(config, now or datetime.now(timezone.utc))
    yield disk(config)


def java() -> Finding:
    """Look for the Java that Spark would use."""
    install = "apt-get install openjdk-17-jre-headless (or brew install openjdk@17), or set JAVA_HOME"
    try:
        from twice.engine.spark.session import java_version
    except ImportError:  # without PySpark nothing would use it
        return Finding("Java", True, "not checked: install PySpark first")
    found = java_version(start=True)
    if found is None:
        return Finding("Java", False, f"none; Spark needs Java {_JAVA} or newer", install)
    path, major = found
    if major < _JAVA:
        return Finding("Java", False, f"{path} is Java {major}; Spark needs {_JAVA} or newer", install)
    return Finding("Java", True, f"Java {major} at {path}")


def pyspark() -> Finding:
    """Look for PySpark."""
    version = spark_version()
    if version is None:
        return Finding("PySpark", False, "not installed", "pip install 'twice[spark]', or run where Spark is installed")
    return Finding("PySpark", True, version)


def spark_version() -> str | None:
    """Return the version of the PySpark that would be imported; None without one."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        import pyspark  # a cluster's own, on PYTHONPATH
    except ImportError:
        return None
    return pyspark.__version__


def packages(config: Config) -> tuple[str, ...]:
    """Return the packages that the profile's Spark asks for."""
    if config.packages is not None:
        return config.packages
    version = spark_version()
    if version is None:
        return ()
    return jars.default_packages(version, config.stores.values())


def jar_files(config: Config) -> Finding:
    """Look for the fetched jars."""
    try:
        wanted = packages(config)
    except EnvironmentProblem as error:
        return Finding("jars", False, error.message, error.next_step)
    if not wanted:
        return Finding("jars", True, "none are needed")
    try:
        absent = jars.missing(wanted)
    except EnvironmentProblem as error:
        return Finding("jars", False, error.message, error.next_step)
    if absent:
        return Finding("jars", False, f"not fetched yet: {', '.join(absent)}", "twice doctor --fetch")
    return Finding("jars", True, f"{len(wanted)} in {jars.fetched_folder()}")


def class_archive(config: Config) -> Finding:
    """Look for the class-data archive of Java, with which Spark starts faster and which no run needs."""
    try:
        from twice.engine.spark.session import class_archive as archive_of

        found = archive_of(config)
    except (ImportError, TwiceError):  # reported in the lines before
        return Finding("classes", True, "not checked: solve the problems above first")
    if isinstance(found, str):
        return Finding("classes", True, f"no class-data archive is used: {found}")
    if found.file is None:
        return Finding("classes", True, "no class-data archive yet; `twice doctor --warm` makes one")
    return Finding("classes", True, f"{found.file.stat().st_size >> 20} MiB in {found.file}")


def fetch(config: Config) -> None:
    """Let Spark fetch the jars that are missing, and check that they arrived."""
    absent = jars.missing(packages(config))
    if not absent:
        return
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise EnvironmentProblem("PySpark is not installed", next_step="pip install 'twice[spark]'") from None
    from twice.engine.spark.session import require_java

    require_java()
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars.packages": ",".join(absent),
        "spark.jars.ivy": str(jars.cache()),
    }
    builder = SparkSession.builder.appName("twice doctor")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        builder.getOrCreate().stop()
    except (PySparkException, RuntimeError, OSError) as error:
        raise _not_fetched(absent) from error
    if still := jars.missing(tuple(absent)):
        raise _not_fetched(still)


def _not_fetched(absent: list[str]) -> EnvironmentProblem:
    places = ", ".join(str(jars.fetched(package)) for package in absent)
    return EnvironmentProblem(
        f"these jars could not be fetched: {', '.join(absent)}",
        unchanged="nothing else was changed",
        next_step=f"check the network, or put the files there yourself: {places}",
    )


def configuration(config: Config) -> Finding:
    """Report which configuration is in force."""
    names = ", ".join(config.pipelines) or "no pipelines"
    return Finding("configuration", True, f"{config.source}, profile {config.profile}: {names}")


def ledger(config: Config) -> Finding:
    """Open the ledger and try to write to it; one that does not exist yet is created by the first run."""
    shown = redact(config.ledger)
    try:
        opened = find_ledger(config.ledger)
        if opened is None:
            return _future_ledger(config)
        health = opened.admin.check()
        ahead = _newest(opened)
    except TwiceError as error:
        return Finding("ledger", False, redact(error.message), error.next_step)
    if ahead and ahead > datetime.now(timezone.utc) + health.ahead + _AHEAD:
        return Finding(
            "ledger",
            False,
            f"{shown} has a record from the future: {ahead:%Y-%m-%d %H:%M}Z",
            "correct the clock of this machine, or of the one that wrote it: leases depend on it",
        )
    return Finding("ledger", True, f"{shown}, {health.software}, readable and writable{_skew(health)}")


def _newest(opened: Ledger) -> datetime | None:
    newest = opened.runs.list(limit=1)
    return newest[0].started_at if newest else None


def _skew(health: Health) -> str:
    """Report clocks that differ; a difference is harmless, as all processes ask the server's."""
    seconds = health.ahead.total_seconds()
    if abs(seconds) < 1:
        return ""
    return f"; its clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"


def _future_ledger(config: Config) -> Finding:
    if not config.ledger.startswith("sqlite:///"):
        return Finding("ledger", True, f"{redact(config.ledger)} answers; the first run creates the ledger there")
    path = Path(config.ledger.removeprefix("sqlite:///"))
    folder = next(parent for parent in path.parents if parent.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding(
            "ledger", False, f"{path} cannot be created: {error.strerror}", f"let this user write to {folder}"
        )
    return Finding("ledger", True, f"none yet; the first run creates {path}")


def clock(config: Config, now: datetime) -> Finding:
    """Check time zone data and the system clock."""
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError):
        return Finding("clock", False, "there is no time zone data", "pip install tzdata")
    if now.year not in _YEARS:
        return Finding("clock", False, f"this machine says {now:%Y-%m-%d %H:%M}Z", "set the clock: leases depend on it")
    if config.source and config.source.exists():
        saved = datetime.fromtimestamp(config.source.stat().st_mtime, timezone.utc)
        if saved > now + _AHEAD:
            return Finding(
                "clock",
                False,
                f"it is {now:%Y-%m-%d %H:%M}Z here, but {config.source} was saved at {saved:%Y-%m-%d %H:%M}Z",
                "set the clock: leases depend on it",
            )
    return Finding("clock", True, f"{now:%Y-%m-%d %H:%M}Z, time zone data is there")


def disk(config: Config) -> Finding:
    """Check the free space where Spark, the jars and a local ledger write."""
    places = {Path(tempfile.gettempdir()), config.root}
    with suppress(EnvironmentProblem):  # reported in the line of the jars
        places.add(jars.cache())
    # Unlike Path.exists, this answers False in a folder that may not be read.
    existing = {next(folder for folder in (place, *place.parents) if os.path.exists(folder)) for place in places}  # noqa: PTH110
    free = {folder: shutil.disk_usage(folder).free for folder in existing}
    folder, least = min(free.items(), key=lambda item: item[1])
    text = f"{least / _SPACE:.1f} GiB free in {folder}"
    if least < _SPACE:
        return Finding("disk", False, f"only {text}", f"free some space in {folder}")
    return Finding("disk", True, text)


def stores(config: Config) -> Iterator[Finding]:
    """Start Spark and check that every store with a probe answers."""
    from pyspark.errors import PySparkException

    from twice.engine.spark import session

    spark = session.start(config)
    try:
        for store in config.stores.values():
            probe = store_type(store.type).probe
            if probe is None:
                continue
            try:
                more = probe(spark, store, config.root)
            except PySparkException as error:
                reason = redact(str(error).splitlines()[0])
                yield Finding("store", False, f"{store.name}: {reason}", f"check [stores.{store.name}]")
            except TwiceError as error:
                yield Finding("store", False, f"{store.name}: {error.message}", error.next_step)
            else:
                yield Finding("store", True, f"{store.name} answers{more}")
    finally:
        spark.stop()
