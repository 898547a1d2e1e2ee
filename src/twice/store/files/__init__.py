"""CSV, JSON and Parquet files that another system lands: read, never written."""

from twice.store.files.store import FilesSource

__all__ = ["FilesSource"]
