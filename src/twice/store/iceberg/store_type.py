"""The row of `type = "iceberg"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twice.errors import EnvironmentProblem
from twice.store import jdbc_drivers
from twice.store.iceberg.settings import DEFAULT_CATALOG, DEFAULT_WAREHOUSE, EXTENSIONS, spark_settings
from twice.store.store_type import Jars, LocalStore, StoreType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import StoreConfig
    from twice.store.protocol import Source

# The newest that was published for each Spark; tests/engine/test_jars_resolve.py fetches every coordinate named here.
RUNTIMES = {
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
}


def _open(store: StoreConfig, root: Path) -> Source:
    from twice.store.iceberg.catalog import CatalogDatabase
    from twice.store.iceberg.store import IcebergStore

    return IcebergStore(CatalogDatabase.of(store, root))


def _packages(store: StoreConfig, spark: str) -> tuple[str, ...]:
    if spark not in RUNTIMES:
        raise EnvironmentProblem(
            f"no Iceberg runtime is known for Spark {spark}; known versions: {', '.join(RUNTIMES)}",
            next_step='name the packages yourself: packages = ["group:artifact:version"] under [profiles.default]',
        )
    return (RUNTIMES[spark], *jdbc_drivers.driver_of(store.options.get("catalog", DEFAULT_CATALOG)))


def _start_catalog(session: SparkSession, name: str) -> None:
    from twice.store.iceberg import jvm

    jvm.start_catalog(session, name)


def _probe(session: SparkSession, store: StoreConfig, _root: Path) -> str:
    from twice.model.names import quote

    return f"; {session.sql(f'SHOW NAMESPACES IN {quote(store.name)}').count()} namespaces"


ICEBERG = StoreType(
    "iceberg",
    keys=("catalog", "warehouse"),
    open=_open,
    places={"catalog": DEFAULT_CATALOG, "warehouse": DEFAULT_WAREHOUSE},
    spark_settings=spark_settings,
    extensions=EXTENSIONS,
    jars=Jars(
        _packages,
        every=(*RUNTIMES.values(), *jdbc_drivers.EVERY),
        complete=("org.apache.iceberg:iceberg-spark-runtime", *jdbc_drivers.COMPLETE),
        java_class="org.apache.iceberg.spark.SparkCatalog",
    ),
    transient_errors=(
        r"CommitFailedException|CommitStateUnknownException|ServiceUnavailableException|ServiceFailureException"
        # Another attempt had created the table, and dropped it when it failed: the next one creates it again.
        r"|from catalog \S+: dropped by another process"
        rf"|{jdbc_drivers.TRANSIENT_ERRORS}"
    ),
    start_catalog=_start_catalog,
    probe=_probe,
    local=LocalStore(
        {"warehouse": "{folder}/warehouse/{name}", "catalog": "sqlite:///{folder}/catalog-{name}.db"},
    ),
)
