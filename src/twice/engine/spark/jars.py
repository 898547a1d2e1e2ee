"""The jars that Spark needs, fetched once by Spark's own package resolution."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from twice.errors import EnvironmentProblem
from twice.store.registry import store_type, usable_types
from twice.store.store_type import Jars

if TYPE_CHECKING:
    from twice.config import StoreConfig


def default_packages(spark_version: str, stores: Iterable[StoreConfig]) -> tuple[str, ...]:
    """Return the packages for a Spark version and the stores in use."""
    minor = ".".join(spark_version.split(".")[:2])
    found: dict[str, None] = {}
    for store in stores:
        jars = store_type(store.type).jars
        if jars is not None:
            found |= dict.fromkeys(jars.packages(store, minor))
    return tuple(found)


def every_package() -> tuple[str, ...]:
    """Return all packages that are named for any Spark version and store."""
    return tuple(dict.fromkeys(package for jars in _every_jars() for package in jars.every))


def _every_jars() -> Iterator[Jars]:
    yield from (row.jars for row in usable_types() if row.jars is not None)


def cache() -> Path:
    """Return the folder where fetched jars stay."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a container's user may have no entry and no HOME
        raise EnvironmentProblem(
            "the cache has no folder: this user has no home directory, and XDG_CACHE_HOME is not set",
            unchanged="nothing was run",
            next_step="set XDG_CACHE_HOME to a folder that this user may write to",
        ) from None
    return Path(base) / "twice" / "ivy"


def fetched_folder() -> Path:
    """Return the folder of the jars themselves."""
    return cache() / "jars"


def fetched(package: str) -> Path:
    """Return where a package's jar lies once it has been fetched."""
    group, artifact, version = package.split(":")
    return fetched_folder() / f"{group}_{artifact}-{version}.jar"


def missing(packages: tuple[str, ...]) -> list[str]:
    """Name the packages that have not been fetched."""
    # Unlike Path.is_file, this answers False where the folder may not be read.
    return [package for package in packages if not os.path.isfile(fetched(package))]  # noqa: PTH113


def is_fetched(file: Path) -> bool:
    """Return whether a file lies where fetched jars do."""
    try:
        return file.parent == fetched_folder()
    except EnvironmentProblem:
        return False


def settings(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the Spark configuration that brings the packages in."""
    if not packages:
        return {}
    complete = tuple(start for jars in _every_jars() for start in jars.complete)
    if all(package.startswith(complete) for package in packages) and not missing(packages):
        return {"spark.jars": ",".join(str(fetched(package)) for package in packages)}
    return {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(cache())}
