"""What a claim leaves beside a table's data: a mark that names the claim, and a folder for the rows that it stages.

The marks lie where neither readers nor Delta's maintenance look. The folders lie where VACUUM does: once
published their files are the table's own, and like all others they go when nothing refers to them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as spelled

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from twice.store.delta import jvm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from twice.model.scopes import Scope

_MARKS = "_twice"


@dataclass(frozen=True)
class Mark:
    """A claim's mark: the scope's name in the log, and the version that the claim started from."""

    application: str
    base: int


def application(scope: Scope) -> str:
    """Name a scope in a table's log, in one line whatever its dimensions hold."""
    window = str(scope.window) if scope.window else "whole table"
    dimensions = (f"{spelled(name, safe='')}={spelled(value, safe='')}" for name, value in scope.dimensions)
    return " ".join([jvm.APPLICATION + spelled(window, safe=" :/+-."), *dimensions])


def folder_of(token: int) -> str:
    """Name the folder of a claim's files, seen from the table's."""
    return f"twice-{token}"


class Claims:
    """The marks and folders of one table's claims."""

    def __init__(self, session: SparkSession, log: Any) -> None:
        self._session = session
        self._root = log.dataPath()
        self._files = self._root.getFileSystem(log.newDeltaHadoopConf())

    def add(self, token: int, mark: Mark) -> None:
        """Leave the mark of a claim."""
        stream = self._files.create(self._mark(token), True)
        try:
            stream.write(bytearray(json.dumps({"application": mark.application, "base": mark.base}), "utf-8"))
        finally:
            stream.close()

    def mark(self, token: int) -> Mark | None:
        """Return the mark of a claim; None if it is gone."""
        try:
            stream = self._files.open(self._mark(token))
        except (Py4JJavaError, CapturedException) as error:
            if jvm.java_class(error).endswith("FileNotFoundException"):
                return None
            raise
        try:
            text = jvm.java_type(self._session, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
        finally:
            stream.close()
        try:
            fields = json.loads(str(text))
            return Mark(str(fields["application"]), int(fields["base"]))
        except (ValueError, KeyError):  # killed while it was written: nothing had been staged
            return Mark("", -1)

    def tokens(self) -> list[int]:
        """List the tokens that have a mark."""
        try:
            found = self._files.listStatus(self._path(_MARKS))
        except (Py4JJavaError, CapturedException) as error:
            if jvm.java_class(error).endswith("FileNotFoundException"):
                return []
            raise
        names = [str(status.getPath().getName()) for status in found]
        return sorted(int(name) for name in names if re.fullmatch(r"\d+", name))

    def end(self, token: int) -> None:
        """Remove the mark; what the claim published stays."""
        self._files.delete(self._mark(token), False)

    def drop(self, token: int) -> None:
        """Remove everything that the claim has written, then its mark."""
        self._files.delete(self._path(folder_of(token)), True)
        self.end(token)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files by their place in the log."""
        uri = jvm.java_type(self._session, "java.net.URI")
        for path in paths:
            name = str(uri(path).getPath())
            self._files.delete(self._path(name), False)

    def folder(self, token: int) -> str:
        """Return the full path of the folder that a claim stages into."""
        return str(self._path(folder_of(token)).toString())

    def _mark(self, token: int) -> Any:
        return self._path(f"{_MARKS}/{token}")

    def _path(self, below: str) -> Any:
        return jvm.java_type(self._session, "org.apache.hadoop.fs.Path")(self._root, below)
