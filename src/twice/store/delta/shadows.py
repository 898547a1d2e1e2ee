"""Shadows of Delta tables: a shallow clone, which shares its files with the table until they are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.store.delta import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.names import TableName
    from twice.store.delta.places import Places


def fork(session: SparkSession, places: Places, table: TableName, shadow: TableName) -> None:
    """Clone a table; the shadow of an absent one is created by its first run."""
    if places.log(session, table) is None or places.log(session, shadow) is not None:
        return
    # Names are quoted by `places`.
    session.sql(f"CREATE TABLE {places.sql(shadow)} SHALLOW CLONE {places.sql(table)}")


def drop(session: SparkSession, places: Places, shadow: TableName) -> None:
    """Remove a shadow's log and files."""
    log = places.log(session, shadow)
    if log is None:
        return
    folder = log.dataPath()
    files = folder.getFileSystem(log.newDeltaHadoopConf())
    if places.path(shadow) is None:
        session.sql(f"DROP TABLE {places.sql(shadow)}")
    files.delete(folder, True)
    # Delta would go on to show what was there.
    jvm.logs(session).invalidateCache(session._jsparkSession, folder)
