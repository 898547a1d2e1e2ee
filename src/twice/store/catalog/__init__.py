"""Tables of a catalog that Spark already knows: read, never written."""

from twice.store.catalog.store import CatalogSource

__all__ = ["CatalogSource"]
