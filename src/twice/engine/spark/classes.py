"""The class-data archive of Java: Spark's classes as Java has read and checked them once, for the next start to map in.

An archive belongs to one way to start Spark: its name is a hash of this Java, of every jar on the class path and of the
options that decide whether Java accepts it. Java compares most of that again, and starts without an archive that does
not fit. Jars that Spark loads itself (`spark.jars`) are in no archive, so they move to Java's class path, behind
Spark's own, which win as before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from twice.engine.spark import jars
from twice.errors import EnvironmentProblem

# An archive takes about 180 MB.
_KEPT = 2
_ABANDONED = 86_400
_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"
# A user who sets one of these has arranged the class path, or runs Spark elsewhere.
_THEIRS = (_CLASS_PATH, "spark.driver.userClassPathFirst", "spark.jars", "spark.jars.packages", "spark.remote")
# Of these, twice sets some itself; the others may come from a package's store.
_OURS = ("spark.jars", "spark.jars.packages")
_THEIR_ENVIRONMENT = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_PREPEND_CLASSES")
_OPTION_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ON_CLASS_PATH = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SHARING = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive|-Xlog:cds")
# Properties, and how Java compiles, change nothing about classes.
_HARMLESS = re.compile(r"-D|-XX:(TieredStopAtLevel|ReservedCodeCacheSize|CICompilerCount)=")
_LOCAL = re.compile(r"local(\[[^\]]*\])?")
# What Java and Spark read as something else in the middle of a path.
_UNUSABLE = re.compile(r"[:\"'\\,*\n]")


@dataclass(frozen=True)
class Archive:
    """The archive of one way to start Spark, whether it has been made or not."""

    key: str
    class_path: str
    java_options: str

    @property
    def file(self) -> Path | None:
        """Where it is; None before it is made, if it cannot be read, or if its length has changed."""
        with suppress(OSError):
            for file in folder().glob(f"{self.key}-*.jsa"):
                if _is_whole(file):
                    return file
        return None

    def using(self, file: Path) -> dict[str, str]:
        """Return the settings of a start with this archive; Java prints no warning if it does not fit."""
        return self._settings(f'"-XX:SharedArchiveFile={file}" -Xshare:auto -Xlog:cds*=off -Xlog:class+path=off')

    def making(self, file: Path) -> dict[str, str]:
        """Return the settings of a start that leaves an archive behind when Java ends."""
        return self._settings(f'"-XX:ArchiveClassesAtExit={file}" -Xlog:cds*=off')

    def _settings(self, options: str) -> dict[str, str]:
        found = {_OPTIONS: f"{self.java_options} {options}".strip()}
        return found | ({_CLASS_PATH: self.class_path} if self.class_path else {})


def folder() -> Path:
    """Return the folder of the archives, beside that of the jars."""
    return jars.cache().with_name("classes")


def obstacle(settings: Mapping[str, str], given: Mapping[str, str], spark_home: Path) -> str:
    """Return why a start uses no archive; empty if it uses one. `given` are the settings that the profile names."""
    return next(_obstacles(settings, given, spark_home), "")


def _obstacles(settings: Mapping[str, str], given: Mapping[str, str], spark_home: Path) -> Iterator[str]:
    master = settings.get("spark.master", "")
    if not _LOCAL.fullmatch(master):
        yield f"Spark runs on {master}" if master else "spark-submit decides where Spark runs"
    yield from (f"{name} is set" for name in _THEIRS if name in given or (name in settings and name not in _OURS))
    yield from (f"{name} is set" for name in _THEIR_ENVIRONMENT if _is_set(name))
    if os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell").strip() != "pyspark-shell":
        yield "PYSPARK_SUBMIT_ARGS is set"
    if "spark.jars.packages" in settings:
        yield "its jars have not all been fetched, or bring others with them"
    if _SHARING.search(java_options(settings)):
        yield "the options of Java name an archive, or forbid one"
    for place in _configuration(spark_home):
        if not _is_empty(place):
            yield f"{place} is on Java's class path, and Java archives classes of jars only"
    try:
        cache = folder()
    except EnvironmentProblem as error:
        yield error.message
    else:
        if _UNUSABLE.search(f"{cache}{spark_home}{settings.get('spark.jars', '').replace(',', '')}"):
            yield "a path has a character in it that Java's options cannot hold"


def archive(settings: Mapping[str, str], java: Path, spark_home: Path) -> Archive:
    """Return the archive of a start with these settings, which have no obstacle."""
    own = [Path(file) for file in settings.get("spark.jars", "").split(",") if file]
    shipped = sorted((spark_home / "jars").glob("*.jar"))
    runtime = java.resolve().parent.parent
    facts = {
        "java": [str(runtime), _text(runtime / "release"), _stamp(runtime / "lib" / "modules")],
        "spark": [str(spark_home), *(_stamp(file) for file in shipped)],
        "jars": [_stamp(file) for file in own],
        "more": os.environ.get("SPARK_DIST_CLASSPATH", ""),
        "memory": [settings.get("spark.driver.memory", ""), os.environ.get("SPARK_DRIVER_MEMORY", "")],
        "options": [word for word in _words(java_options(settings)) if not _HARMLESS.match(word)],
    }
    # Spark puts its logging interface before its other jars; what is named here comes before both.
    first = [str(file) for file in shipped if file.name.startswith("slf4j-api-")]
    class_path = ":".join([*first, str(spark_home / "jars" / "*"), *map(str, own)]) if own else ""
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
    return Archive(key, class_path, settings.get(_OPTIONS, ""))


def replaced(settings: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return settings with those of an archive, whose class path already holds the jars."""
    kept = {name: value for name, value in settings.items() if name != "spark.jars" or _CLASS_PATH not in chosen}
    return {**kept, **chosen}


@contextmanager
def workplace() -> Iterator[Path]:
    """Open a folder to write an archive in, and remove it afterwards: a Java that ends too late cannot write there."""
    folder().mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder()))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def keep(found: Archive, written: Path) -> Path:
    """Give a complete archive its name, and remove older ones; a Java that has one open keeps it."""
    file = folder() / f"{found.key}-{written.stat().st_size}.jsa"
    # Java crashes on an archive with a hole in it, which a power failure may leave.
    _flush(written)
    written.chmod(0o444)
    written.replace(file)
    _flush(folder())
    by_age = sorted(folder().glob("*.jsa"), key=_age)
    others = [each for each in by_age if each != file]
    same = [each for each in others if each.stem.startswith(f"{found.key}-")]
    for each in {*same, *others[_KEPT - 1 :]}:
        discard(each)
    for each in folder().glob(".making-*"):
        if _age(each) > _ABANDONED:
            shutil.rmtree(each, ignore_errors=True)
    return file


def discard(file: Path) -> bool:
    """Remove an archive; False where this user may not."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _is_whole(file: Path) -> bool:
    """Return whether a file can be read and still has its full length."""
    try:
        with file.open("rb") as opened:
            return os.fstat(opened.fileno()).st_size == int(file.stem.rpartition("-")[2])
    except (OSError, ValueError):
        return False


def _flush(place: Path) -> None:
    """Wait until a file or folder is on the disk."""
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _configuration(spark_home: Path) -> list[Path]:
    """Name the folders that Spark puts on the class path, where there are any."""
    own = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    return [own, *(Path(os.environ[name]) for name in _ON_CLASS_PATH if _is_set(name))]


def _is_empty(place: Path) -> bool:
    try:
        return not place.is_dir() or not any(place.iterdir())
    except OSError:  # Java may read what we may not
        return False


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable))


def java_options(settings: Mapping[str, str]) -> str:
    """Return the options of Java that some settings of Spark and the environment name."""
    named = (settings.get(_DEFAULT_OPTIONS, ""), settings.get(_OPTIONS, ""))
    return " ".join([*(os.environ.get(name, "") for name in _OPTION_VARIABLES), *named])


def _words(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:  # an open quote: Spark itself reports it
        return options.split()


def _stamp(file: Path) -> str:
    """Return what Java compares of a jar: its name, length and time, of which container images keep the seconds."""
    try:
        found = file.stat()
    except OSError:
        return f"{file} is not there"
    return f"{file} {found.st_size} {int(found.st_mtime)}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not every Java has a file with its version
        return ""


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:  # another process removed it
        return float("inf")
