"""Shadows of Delta tables: a shallow clone, which shares its files with the table until they are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.errors import StoreRefused
from twice.store.delta import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.names import TableName
    from twice.store.delta.locations import Locations


def fork(session: SparkSession, locations: Locations, table: TableName, shadow: TableName) -> None:
    """Clone a table; the shadow of an absent one is created by its first run."""
    if locations.log(session, table) is None or locations.log(session, shadow) is not None:
        return
    # Names are quoted by `locations`.
    session.sql(f"CREATE TABLE {locations.sql(shadow)} SHALLOW CLONE {locations.sql(table)}")


def drop(session: SparkSession, locations: Locations, shadow: TableName) -> None:
    """Remove a shadow's files and log, and then its name: only by that the files are found."""
    named = locations.path(shadow) is None and locations.is_named(session, shadow)
    try:
        log = locations.log(session, shadow)
    except StoreRefused:  # its files went, and its name stayed
        log = None
    if log is not None:
        folder = log.dataPath()
        folder.getFileSystem(log.newDeltaHadoopConf()).delete(folder, True)
        jvm.forget(session, folder)
    if named:
        session.sql(f"DROP TABLE IF EXISTS {locations.sql(shadow)}")
