"""Start Spark with the settings of a profile."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from twice.engine.spark import acceptance, classes, jars, jvm, quiet_java
from twice.engine.stores import spark_settings
from twice.errors import ConfigError, EnvironmentProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import Config
    from twice.engine.spark.classes import Archive

log = logging.getLogger("twice")

_JAVA = 17
_LOG = Path(__file__).with_name("log4j2.properties")
# Java collects garbage whenever its classes fill this for the first time. By default that is a tenth of what Spark's
# classes take, and a start waits for several collections.
_FOR_CLASSES = "-XX:MetaspaceSize=256m"
_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A retried map stage whose rows came in another order must not mix with the first try's rows.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    "spark.log.level": "ERROR",
}


def settings(config: Config) -> dict[str, str]:
    """Return the whole Spark configuration of a profile."""
    found = _java_settings(config) | spark_settings(config.stores.values(), config.root)
    if config.pools:
        found |= {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": pools_file(config).as_uri()}
    if _is_placed_by_submit(config):
        del found["spark.master"]
    return found | dict(config.spark)


def _java_settings(config: Config) -> dict[str, str]:
    """Return what decides how Java is started; calling this writes nothing."""
    import pyspark

    master = config.spark.get("spark.master", _DEFAULTS["spark.master"])
    packages = config.packages
    if packages is None:
        packages = jars.default_packages(pyspark.__version__, config.stores.values())
    found = {**_DEFAULTS, **jars.settings(packages)}
    if master.startswith("local") and not _is_placed_by_submit(config):
        found["spark.driver.bindAddress"] = "127.0.0.1"
        found["spark.driver.host"] = "127.0.0.1"
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        # Spark's own log begins before its level can be set from Python.
        found["spark.driver.extraJavaOptions"] = f'"-Dlog4j2.configurationFile={_LOG}"'
        if "MetaspaceSize=" not in classes.java_options(config.spark):
            found["spark.driver.extraJavaOptions"] += f" {_FOR_CLASSES}"
    return found


def pools_file(config: Config) -> Path:
    """Write the pools as Spark reads them; equal pools share a file, and it is written as a whole."""
    lines = [
        f"<pool name={quoteattr(pool.name)}><schedulingMode>FAIR</schedulingMode><weight>{pool.weight}</weight>"
        f"<minShare>{pool.min_share}</minShare></pool>"
        for pool in config.pools.values()
    ]
    text = "\n".join(['<?xml version="1.0"?>', "<allocations>", *lines, "</allocations>", ""])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"twice-pools-{os.getuid()}"
    try:
        folder = _private(folder)
        file = folder / f"{name}.xml"
        partial = folder / f".{name}.{os.getpid()}"
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise EnvironmentProblem(
            f"the pools cannot be written to {folder}: {error.strerror}",
            unchanged="nothing was run",
            next_step="free some space there, or set TMPDIR to another directory",
        ) from None
    return file


def _private(folder: Path) -> Path:
    """Return a folder that only this user can write to: the one of that name, or a new one if another user made it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()  # not stat: a link of another user leads to wherever that user likes
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _is_placed_by_submit(config: Config) -> bool:
    """Return whether spark-submit has set where Spark runs."""
    return _submitted() and "spark.master" not in config.spark


def _submitted() -> bool:
    """Return whether spark-submit started this process, and Spark with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check(config: Config) -> None:
    """Refuse a start that could not succeed, before anything is opened or written."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EnvironmentProblem(
            "PySpark is not installed", next_step="pip install 'twice[spark]', or run where Spark is installed"
        ) from None
    if not _submitted():
        check_ledger(config, config.spark.get("spark.master", _DEFAULTS["spark.master"]))
        if SparkSession.getActiveSession() is None:
            require_java()


def check_ledger(config: Config, master: str) -> None:
    """Refuse a ledger on one machine's disk for a Spark that runs on many."""
    if not master.startswith("local") and config.ledger.startswith("sqlite"):
        raise ConfigError(
            f"profile {config.profile} runs on {master}, but its ledger is a file on one machine",
            unchanged="nothing was run",
            next_step='use a ledger that a cluster can share, url = "postgresql://…", or a local master; '
            "`twice ledger export` and `import` move what the file holds",
        )


def start(config: Config, *, archive_to: Path | None = None) -> SparkSession:
    """Start Spark, or join the application that is already running in this process.

    With `archive_to`, its Java leaves a class-data archive there when it ends.
    """
    check(config)
    from pyspark.errors import PySparkException

    wanted = settings(config)
    if wanted.get("spark.master", "").startswith("local"):
        # On one machine the workers are this very Python, with the packages that it has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen, file = _with_classes(config, wanted, archive_to)
    try:
        session = _begin(chosen) if file is None else _begin_with(file, chosen, wanted)
    except (PySparkException, RuntimeError) as error:
        absent = (
            jars.missing(tuple(wanted.get("spark.jars.packages", "").split(",")))
            if "spark.jars.packages" in wanted
            else []
        )
        hint = f"; these jars could not be fetched: {', '.join(absent)}" if absent else ""
        raise EnvironmentProblem(
            f"Spark did not start: {str(error).splitlines()[0]}{hint}",
            unchanged="nothing was run",
            next_step="twice doctor",
        ) from error
    jvm.require(session)
    session.sparkContext.setLogLevel(wanted["spark.log.level"])
    _quiet_pyspark()
    return session


def _begin(chosen: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    wanted = {"spark.app.name": "twice", **chosen}
    remote = "SPARK_REMOTE" in os.environ or "spark.remote" in chosen
    if not (remote or jvm.is_running() or _submitted() or log.isEnabledFor(logging.INFO)):
        SparkContext(conf=SparkConf().setAll([*wanted.items()]), gateway=quiet_java.launch(wanted))
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _begin_with(archive: Path, chosen: Mapping[str, str], wanted: Mapping[str, str]) -> SparkSession:
    """Start Spark with an archive; if Java crashes with it, start without it and remove it."""
    from pyspark.errors import PySparkException

    try:
        return _begin(chosen)
    except (PySparkException, RuntimeError):
        if jvm.is_running():
            raise
    found = _begin(wanted)  # if this fails, too, the archive is not the cause
    removed = "was removed" if classes.discard(archive) else "cannot be removed by this user"
    log.warning(
        "Java did not start with the class-data archive %s and started without it; the archive %s. "
        "next: twice doctor --warm",
        archive,
        removed,
    )
    return found


def _with_classes(
    config: Config, wanted: Mapping[str, str], archive_to: Path | None
) -> tuple[Mapping[str, str], Path | None]:
    """Return the settings of a start, and the class-data archive that they name if there is one for it."""
    if jvm.is_running():  # its class path can no longer change
        return wanted, None
    found = class_archive(config, wanted)
    if isinstance(found, str):
        return wanted, None
    if archive_to is not None:
        return classes.replaced(wanted, found.making(archive_to)), None
    file = found.file
    return (wanted, None) if file is None else (classes.replaced(wanted, found.using(file)), file)


def class_archive(config: Config, wanted: Mapping[str, str] | None = None) -> Archive | str:
    """Return the class-data archive that belongs to a start of Spark, or the reason why it takes none."""
    from pyspark.find_spark_home import _find_spark_home

    wanted = _java_settings(config) | dict(config.spark) if wanted is None else wanted
    java, home = _java(), Path(_find_spark_home())  # type: ignore[no-untyped-call]
    if java is None:
        return "Java was not found"
    return classes.obstacle(wanted, config.spark, home) or classes.archive(wanted, java, home)


def refusal(config: Config, archive: Archive, file: Path) -> str:
    """Return why Java, as the profile starts it, would not accept an archive file; empty if it would."""
    from pyspark.find_spark_home import _find_spark_home

    java = _java()
    wanted = classes.replaced(_java_settings(config) | dict(config.spark), archive.using(file))
    return "" if java is None else acceptance.refusal(wanted, java, Path(_find_spark_home()))  # type: ignore[no-untyped-call]


def _quiet_pyspark() -> None:
    """Keep PySpark from printing every error, and the values of rows that it quotes, beside raising it."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before PySpark 4 there was no such log
        return
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")


def fresh(spark: SparkSession, zone: str) -> SparkSession:
    """Open a session whose views and settings no other step sees, in a pipeline's time; any thread may ask for one."""
    jvm.activate(spark)
    found = spark.newSession()
    found.conf.set("spark.sql.session.timeZone", zone)
    return found


def java_version(*, start: bool = False) -> tuple[str, int] | None:
    """Return the path and major version of the Java that Spark would use; None without one.

    It is read from the file beside Java where that is possible; with `start`, Java itself is asked.
    """
    java = _java()
    if java is None:
        return None
    match = re.match(r"(\d+)(?:\.(\d+))?", (not start and _released(java)) or _answered(java))
    if not match:
        return None
    major = int(match[2]) if match[1] == "1" and match[2] else int(match[1])
    return str(java), major


def _released(java: Path) -> str:
    """Return the version that the file beside a Java names, without starting it; empty without such a file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        release = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
        if match := re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE):
            return match[1]
    return ""


def _answered(java: Path) -> str:
    """Return the version that a Java prints; empty if it cannot be started."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return match[1] if match else ""


def _java() -> Path | None:
    """Return the Java that Spark would use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(java) if java and Path(java).exists() else None


def require_java() -> None:
    """Refuse to start without Java 17 or newer, with what to install."""
    found = java_version()
    if found is None:
        raise EnvironmentProblem(
            f"Spark needs Java {_JAVA} or newer, and there is none on this machine",
            unchanged="nothing was run",
            next_step="apt-get install openjdk-17-jre-headless (or brew install openjdk@17), or set JAVA_HOME",
        )
    if found[1] < _JAVA:
        raise EnvironmentProblem(
            f"Spark needs Java {_JAVA} or newer; {found[0]} is Java {found[1]}",
            unchanged="nothing was run",
            next_step="install a newer Java, or point JAVA_HOME to it",
        )
