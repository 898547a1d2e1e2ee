"""CSV, JSON and Parquet files that somebody else lands: read, never written."""

from twice.store.files.store import FilesSource

__all__ = ["FilesSource"]
