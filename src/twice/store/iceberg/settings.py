"""A store's configuration as Spark configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from twice.errors import ConfigError

if TYPE_CHECKING:
    from twice.config import StoreConfig

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DEFAULT_CATALOG = "sqlite:///.twice/catalog.db"
DEFAULT_WAREHOUSE = ".twice/warehouse"


def spark_settings(store: StoreConfig, root: Path) -> dict[str, str]:
    """Return what Spark needs to know to reach the store's catalog."""
    catalog = store.options.get("catalog", DEFAULT_CATALOG)
    if catalog == "spark":  # configured by the cluster, or under [profiles.*.spark]
        return {}
    warehouse = store.options.get("warehouse", DEFAULT_WAREHOUSE)
    if "://" not in warehouse:
        warehouse = str((root / warehouse).resolve())
    prefix = f"spark.sql.catalog.{store.name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.warehouse": warehouse,
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{name}": value for name, value in _connection(store.name, catalog, root).items()},
    }


def catalog_file(catalog: str, root: Path) -> Path:
    """Return the file of an embedded catalog; a relative path is relative to the configuration file."""
    return (root / catalog.removeprefix("sqlite:///")).resolve()


def _connection(name: str, catalog: str, root: Path) -> dict[str, str]:
    if catalog.startswith("sqlite:///"):
        path = catalog_file(catalog, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Several processes share the file: wait for each other instead of failing.
        return {"uri": f"jdbc:sqlite:{path}", "jdbc.busy_timeout": "30000"}
    if catalog.startswith(("postgresql://", "postgres://")):
        url = urlsplit(catalog)
        port = f":{url.port}" if url.port else ""
        found = {"uri": f"jdbc:postgresql://{url.hostname}{port}{url.path}"}
        if url.username:
            found["jdbc.user"] = unquote(url.username)
        if url.password:
            found["jdbc.password"] = unquote(url.password)
        return found
    raise ConfigError(
        f'[stores.{name}] catalog must start with sqlite:/// or postgresql://, or be "spark" for a catalog that '
        "the Spark configuration already has"
    )
