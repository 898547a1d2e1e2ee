"""The jars that Spark needs, fetched once by Spark's own package resolution."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from twice.errors import EnvironmentProblem

if TYPE_CHECKING:
    from twice.config import StoreConfig

# The newest that was published for each Spark; tests/engine/test_jars_resolve.py fetches every coordinate named here.
_ICEBERG = {
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
}
# Delta and all that it needs beside Spark's own jars; its other dependencies are for catalogs that are not used here.
_DELTA = {
    "4.1": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
    ),
}
_SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
_POSTGRES = "org.postgresql:postgresql:42.7.7"
# These bring everything they need, so that a fetched file can be handed to Spark as it is.
_ALONE = (
    "org.apache.iceberg:iceberg-spark-runtime",
    "io.delta:",
    "org.xerial:sqlite-jdbc",
    "org.postgresql:postgresql",
)


def default_packages(spark_version: str, stores: Iterable[StoreConfig]) -> tuple[str, ...]:
    """Return the packages for a Spark version and the stores in use."""
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in _ICEBERG:
        raise EnvironmentProblem(
            f"no Iceberg runtime is known for Spark {spark_version}; known versions: {', '.join(_ICEBERG)}",
            next_step='name the packages yourself: packages = ["group:artifact:version"] under [profiles.default]',
        )
    found: dict[str, None] = {}
    for store in stores:
        if store.type == "iceberg":
            found[_ICEBERG[minor]] = None
        if store.type == "delta":
            found |= dict.fromkeys(_delta(minor))
        url = store.options.get("catalog", "sqlite:///") if store.type == "iceberg" else store.options.get("url", "")
        if url.startswith("sqlite"):
            found[_SQLITE] = None
        if url.startswith("postgres"):
            found[_POSTGRES] = None
    return tuple(found)


def every_package() -> tuple[str, ...]:
    """Return all packages that are named for any Spark version and store."""
    delta = (package for packages in _DELTA.values() for package in packages)
    return tuple(dict.fromkeys((*_ICEBERG.values(), *delta, _SQLITE, _POSTGRES)))


def _delta(minor: str) -> tuple[str, ...]:
    if minor not in _DELTA:
        raise EnvironmentProblem(
            f"the Delta store is not tested with Spark {minor}; it is tested with {', '.join(_DELTA)}",
            next_step='use that Spark, or keep the table in a store of type "iceberg"',
        )
    return _DELTA[minor]


def cache() -> Path:
    """Return the folder where fetched jars stay."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "twice" / "ivy"


def fetched(package: str) -> Path:
    """Return where a package's jar lies once it has been fetched."""
    group, artifact, version = package.split(":")
    return cache() / "jars" / f"{group}_{artifact}-{version}.jar"


def missing(packages: tuple[str, ...]) -> list[str]:
    """Name the packages that have not been fetched."""
    return [package for package in packages if not fetched(package).is_file()]


def settings(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the Spark configuration that brings the packages in."""
    if not packages:
        return {}
    if all(package.startswith(_ALONE) for package in packages) and not missing(packages):
        return {"spark.jars": ",".join(str(fetched(package)) for package in packages)}
    return {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(cache())}
