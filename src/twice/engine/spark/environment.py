"""What decides the rows of a run beside its inputs and the code of its steps: recorded, compared and put back.

The commit identifies the code of a run, versions and jars the software that computed it. Of Spark's
settings only those are recorded that change the value of an expression; how work is spread over tasks changes no value,
but for the last digits of sums of floating-point numbers.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from twice import __version__
from twice.code.project import unwrapped
from twice.code.repository import commit_at
from twice.engine.spark import jars
from twice.engine.spark.session import fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline

# Packages that user-defined functions usually compute with.
_PACKAGES = ("numpy", "pandas", "pyarrow")
_ZONE = "spark.sql.session.timeZone"
_SETTINGS = (
    "spark.sql.ansi.enabled",  # an overflow or a bad cast: an error, or null
    "spark.sql.caseSensitive",  # whether two spellings are one column
    "spark.sql.decimalOperations.allowPrecisionLoss",  # the digits of a division of decimals
    "spark.sql.mapKeyDedupPolicy",  # a key twice in a map: an error, or the last one wins
    "spark.sql.storeAssignmentPolicy",  # what is cast into a column of a table, and how
    "spark.sql.timestampType",  # whether a timestamp without a zone is an instant
    _ZONE,  # the day of an instant
)
# Each of them restores a behaviour of an earlier Spark.
_LEGACY = "spark.sql.legacy."
_known: dict[tuple[str, str], dict[str, object]] = {}


def environment(runtime: Runtime, pipeline: Pipeline) -> dict[str, object]:
    """Describe what a run of a pipeline is made with now; no Spark job is started."""
    found: dict[str, object] = {}
    with suppress(Py4JError, OSError):  # a Spark that is gone is for the run itself to report
        found |= _of_spark(runtime.spark, pipeline.zone.key)
    if commit := commit_at(_folder(pipeline)):
        found |= {"commit": commit.id, "dirty": commit.dirty}
    return found


def _of_spark(spark: SparkSession, zone: str) -> dict[str, object]:
    """Describe the Spark that steps run on, once: all sessions of one application begin with the same settings."""
    application = (str(spark.sparkContext.applicationId), zone)
    if application not in _known:
        session = fresh(spark, zone)
        found: dict[str, object] = {"versions": _versions(session.version), "settings": settings(session)}
        if brought := _jars(session):
            found["jars"] = brought
        _known[application] = found
    return _known[application]


def settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of a session that decide results, as far as this Spark knows them."""
    found = {name: value for name in _SETTINGS if (value := _setting(session, name)) is not None}
    return dict(sorted({**found, **_legacy(session)}.items()))


def put_back(session: SparkSession, recorded: Mapping[str, object]) -> list[str]:
    """Give a session the settings of a recorded run, but for the time zone; name those that cannot be set."""
    wanted = {name: value for name, value in _settings_of(recorded).items() if name != _ZONE}
    if not wanted:
        return []
    refused = []
    for name, now in settings(session).items():
        if name.startswith(_LEGACY) and name not in wanted:
            session.conf.unset(name)
        elif name in wanted and wanted[name] == now:
            del wanted[name]
    for name, value in wanted.items():
        try:
            session.conf.set(name, value)
        except PySparkException:
            refused.append(f"{name} was {value} and cannot be set here")
    return refused


def zone_of(recorded: Mapping[str, object]) -> str | None:
    """Return the time zone of a recorded run."""
    return _settings_of(recorded).get(_ZONE)


def changed_software(recorded: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Name the versions and jars that differ now."""
    return [*_changed_versions(recorded, now), *_changed_jars(recorded, now)]


def _changed_versions(recorded: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    before, after = (cast("Mapping[str, str]", each.get("versions", {})) for each in (recorded, now))
    for name, version in before.items():
        if after.get(name) != version:
            yield f"{name} was {version} and is {after.get(name) or 'not installed'}"


def _changed_jars(recorded: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    before, after = (set(cast("list[str]", each.get("jars", []))) for each in (recorded, now))
    if gone := sorted(before - after):
        yield f"the jar{'s' if len(gone) > 1 else ''} {', '.join(gone)} {'are' if len(gone) > 1 else 'is'} missing"


def _settings_of(recorded: Mapping[str, object]) -> dict[str, str]:
    return dict(cast("Mapping[str, str]", recorded.get("settings", {})))


@cache
def _versions(spark: str) -> dict[str, str]:
    found = {"python": platform.python_version(), "spark": spark, "twice": __version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _setting(session: SparkSession, name: str) -> str | None:
    try:
        return str(session.conf.get(name))
    except (PySparkException, Py4JError):  # another Spark may not know it
        return None


def _legacy(session: SparkSession) -> dict[str, str]:
    """Return the settings that were made for Spark's earlier ways; the defaults are not listed."""
    every: Any = getattr(session.conf, "getAll", None)  # Spark 3 does not offer it
    made = every if isinstance(every, Mapping) else dict(session.sparkContext.getConf().getAll())
    return {name: value for name, value in made.items() if name.startswith(_LEGACY)}


def _jars(session: SparkSession) -> list[str]:
    """Name the jars that were brought to Spark; those of the installation itself go by its version."""
    context = session.sparkContext.getConf()
    files = [Path(each).name for each in (context.get("spark.jars") or "").split(",") if each]
    # With a class-data archive the fetched jars are on Java's class path, beside Spark's own.
    on_class_path = [Path(each) for each in (context.get("spark.driver.extraClassPath") or "").split(":") if each]
    files += [each.name for each in on_class_path if jars.is_fetched(each)]
    packages = [each for each in (context.get("spark.jars.packages") or "").split(",") if each]
    return sorted({*files, *packages})


def _folder(pipeline: Pipeline) -> Path:
    """Return the folder of a pipeline's code: beside its first function, else where the process runs."""
    functions = (unwrapped(step.function) for step in pipeline.steps.values() if step.function is not None)
    files = (getattr(getattr(function, "__code__", None), "co_filename", "") for function in functions)
    return next((Path(file).parent for file in files if Path(file).is_file()), Path.cwd())
