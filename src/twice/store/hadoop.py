"""The same few operations on HDFS, through the Hadoop client of the Spark session; what file stores call in Java."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from twice.content import gateway
from twice.errors import TwiceError
from twice.store.file_system import Entry, problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GONE = ("FileNotFoundException", "NoSuchFileException", "ParentNotDirectoryException")
_CODES = {
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "FileAlreadyExistsException": errno.EEXIST,
    "DSQuotaExceededException": errno.EDQUOT,
    "NSQuotaExceededException": errno.EDQUOT,
    "QuotaExceededException": errno.EDQUOT,
}


class HadoopFiles:
    """The file system of one address, such as hdfs://nameservice."""

    def __init__(self, session: SparkSession, root: str) -> None:
        self._java = gateway.java(session)
        conf = gateway.hadoop_settings(session)
        where = self._java.org.apache.hadoop.fs.Path(root).toUri()
        self._system = self._java.org.apache.hadoop.fs.FileSystem.get(where, conf)
        # Unlike FileSystem's, its rename refuses a target that is not empty, and reports why.
        self._context = self._java.org.apache.hadoop.fs.FileContext.getFileContext(where, conf)
        ways = getattr(self._java.org.apache.hadoop.fs, "Options$Rename")
        self._how = gateway.array(session, ways, 1)
        self._how[0] = ways.OVERWRITE  # an empty folder only: see the client's documentation

    def entries(self, path: str) -> list[Entry]:
        """List a folder; one that does not exist counts as empty."""
        try:
            with _explained(path):
                found = self._system.listStatus(self._path(path))
        except FileNotFoundError:
            return []
        known = [
            Entry(
                str(item.getPath().getName()),
                bool(item.isDirectory()),
                int(item.getLen()),
                int(item.getModificationTime()),
            )
            for item in found
        ]
        return sorted(known, key=lambda entry: entry.name)

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        with _explained(path):
            return bool(self._system.exists(self._path(path)))

    def read(self, path: str) -> str | None:
        """Return a file's text; None if it does not exist."""
        try:
            with _explained(path):
                stream = self._system.open(self._path(path))
                try:
                    return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        except FileNotFoundError:
            return None

    def write(self, path: str, text: str) -> None:
        """Write a new file and wait until the data nodes have it."""
        with _explained(path):
            stream = self._system.create(self._path(path), False)
            try:
                stream.write(bytearray(text.encode()))
                stream.hsync()
            finally:
                stream.close()

    def clear(self, path: str) -> None:
        """Make a file empty."""
        with _explained(path):
            self._system.create(self._path(path), True).close()

    def make(self, path: str) -> None:
        """Make a folder and those above it."""
        with _explained(path):
            self._system.mkdirs(self._path(path))

    def move(self, source: str, target: str) -> None:
        """Rename on the name node, in one step."""
        try:
            with _explained(target):
                self._context.rename(self._path(source), self._path(target), self._how)
        except TwiceError:
            if self.entries(target):
                raise FileExistsError(errno.EEXIST, "it is occupied", target) from None
            raise

    def remove(self, path: str) -> None:
        """Remove a folder with everything in it."""
        with _explained(path):
            self._system.delete(self._path(path), True)

    def copy(self, source: str, target: str) -> None:
        """Copy a folder with everything in it, wherever both are."""
        hadoop, conf = self._java.org.apache.hadoop.fs, self._system.getConf()
        from_, to = self._path(source), self._path(target)
        with _explained(source):
            hadoop.FileUtil.copy(from_.getFileSystem(conf), from_, to.getFileSystem(conf), to, False, conf)

    def sync(self, path: str) -> None:
        """Do nothing: the name node saves each of its changes before it answers."""

    def _path(self, path: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(path)


def place(session: SparkSession, folder: str) -> tuple[Any, Any]:
    """Return the file system of a folder, and the folder in it."""
    path = gateway.java(session).org.apache.hadoop.fs.Path(folder)
    return path.getFileSystem(gateway.hadoop_settings(session)), path


def name_encoding(session: SparkSession) -> str:
    """Return how this Java writes the names of files."""
    return str(gateway.java(session).java.lang.System.getProperty("sun.jnu.encoding"))


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Raise what the client throws as FileNotFoundError, or as one of our errors."""
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        name, reason = _name_and_words(error)
        if name in _GONE:
            raise FileNotFoundError(errno.ENOENT, reason, path) from error
        raise problem(OSError(_CODES.get(name, errno.EIO), reason), path) from error


def _name_and_words(error: Any) -> tuple[str, str]:
    thrown = gateway.java_error(error)
    if thrown is None:
        return type(error).__name__, str(error).splitlines()[0]
    if thrown.getClass().getSimpleName() == "RemoteException":
        thrown = thrown.unwrapRemoteException()
    words = str(thrown.getMessage() or "").splitlines()
    return str(thrown.getClass().getSimpleName()), words[0] if words else ""
