"""Iceberg: a branch is both the stage and the fence; publish is metadata only."""

from twice.store.iceberg.store import IcebergStore

__all__ = ["IcebergStore"]
