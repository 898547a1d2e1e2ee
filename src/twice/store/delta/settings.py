"""A Delta store's configuration: where its tables are, and its Spark settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twice.errors import ConfigError

if TYPE_CHECKING:
    from twice.config import StoreConfig

EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension"
DEFAULT_PATH = ".twice/delta"
# Locations where a commit of Delta's log is atomic for writers in several processes without further set-up.
_ATOMIC = {"abfs", "abfss", "adl", "gs", "hdfs", "wasb", "wasbs"}


@dataclass(frozen=True)
class Settings:
    """Where a store's tables are: below a folder, or where Spark's own catalog places them."""

    root: str | None

    @property
    def local(self) -> bool:
        """Return whether the tables lie on a disk of this machine."""
        return self.root is not None and "://" not in self.root

    @property
    def side_by_side(self) -> bool:
        """Return whether two processes may commit to one table at the same time."""
        return self.root is not None and urlsplit(self.root).scheme in _ATOMIC


def read_settings(store: StoreConfig, root: Path) -> Settings:
    """Read a store's options; a relative path is seen from the configuration file."""
    catalog, path = store.options.get("catalog"), store.options.get("path")
    if catalog is not None and (catalog != "spark" or path is not None):
        raise ConfigError(
            f'[stores.{store.name}]: give a path, or catalog = "spark" for tables of the catalog that the Spark '
            "configuration already has"
        )
    if catalog is not None:
        return Settings(None)
    path = path or DEFAULT_PATH
    return Settings(path.rstrip("/") if "://" in path else str((root / path).resolve()))


def spark_settings(store: StoreConfig, root: Path) -> dict[str, str]:
    """Return what Spark needs to know to write Delta tables."""
    found = {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta's parser does not know parameter markers; so Spark binds them after parsing, as it did before 4.1.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }
    # Each scope has a transaction id. While a version's checksum lists them all, a claim reads its own without a Spark
    # job; by default that ends at a hundred, the first quarter of a daily table.
    found["spark.databricks.delta.setTransactionsInCrc.maxAllowed"] = "1000"
    if read_settings(store, root).local:
        # The log of a table on one disk is small; by default Delta reads it in fifty tasks.
        found["spark.databricks.delta.snapshotPartitions"] = "2"
        # The same for the list of its files, which by default ends at fifty.
        found["spark.databricks.delta.allFilesInCrc.thresholdNumFiles"] = "500"
    return found
