"""The row of `type = "delta"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.errors import EnvironmentProblem
from twice.store.delta.settings import DEFAULT_PATH, EXTENSIONS, read_settings, spark_settings
from twice.store.store_type import Jars, LocalStore, StoreType

if TYPE_CHECKING:
    from twice.config import StoreConfig
    from twice.store.protocol import Source

# Delta and all that it needs beside Spark's own jars; its other dependencies are for catalogs that are not used here.
RUNTIMES = {
    "4.1": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
    ),
}


def _open(store: StoreConfig, root: Path) -> Source:
    from twice.store.delta.store import DeltaStore

    return DeltaStore(read_settings(store, root))


def _packages(_store: StoreConfig, spark: str) -> tuple[str, ...]:
    if spark not in RUNTIMES:
        raise EnvironmentProblem(
            f"the Delta store is not tested with Spark {spark}; it is tested with {', '.join(RUNTIMES)}",
            next_step='use that Spark, or keep the table in a store of type "iceberg"',
        )
    return RUNTIMES[spark]


DELTA = StoreType(
    "delta",
    keys=("catalog", "path"),
    open=_open,
    places={"catalog": "", "path": DEFAULT_PATH},
    spark_settings=spark_settings,
    extensions=EXTENSIONS,
    jars=Jars(
        _packages,
        every=tuple(package for packages in RUNTIMES.values() for package in packages),
        complete=("io.delta:",),
        java_class="org.apache.spark.sql.delta.DeltaLog",
    ),
    local=LocalStore({"path": "{folder}/delta/{name}"}),
)
