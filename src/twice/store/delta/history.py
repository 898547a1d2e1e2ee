"""The versions in a table's log, read commit by commit, newest first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from twice.store.delta import jvm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

TOKEN = "twice.token"  # noqa: S105 - a fencing token, no secret
FENCED = "twice.fenced"
UNCHANGED = "twice.unchanged"


# The commits that would show it have been cleaned up.
FORGOTTEN = ""


def landed(session: SparkSession, log: Any, newest: int, token: int, since: int = -1) -> str | None:
    """Return the version that a token published after `since`; None if it did not, or was fenced first."""
    for version in range(newest, since, -1):
        actions = commit_at(session, log, version, first_only=True)
        if actions is None:
            return FORGOTTEN
        written = notes(actions)
        if written.get(TOKEN) == str(token):
            return str(version)
        if written.get(FENCED) == str(token):
            return None
    return None


def content_version(newest: int, first_of: Callable[[int], list[dict[str, Any]] | None]) -> int:
    """Return the version that made what readers see: a claim that was fenced is a commit, but no new content.

    `first_of` returns the first action of a commit.
    """
    while newest > 0:
        actions = first_of(newest)
        if not actions or not notes(actions).keys() & {FENCED, UNCHANGED}:
            break
        newest -= 1
    return newest


def current(session: SparkSession, log: Any, newest: int) -> int:
    """Return the content version of a log, read by Java."""
    return content_version(newest, lambda version: commit_at(session, log, version, first_only=True))


def notes(actions: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return what was recorded with a commit; nothing if it is not ours."""
    text = next((action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action), None)
    try:
        written = json.loads(text) if text else {}
    except ValueError:
        return {}
    return written if isinstance(written, dict) else {}


def commit_at(
    session: SparkSession, log: Any, version: int, *, first_only: bool = False
) -> list[dict[str, Any]] | None:
    """Return the actions of a commit, or its first one, which names its writer; None if it is gone."""
    path = jvm.java_type(session, "org.apache.hadoop.fs.Path")(log.logPath(), f"{version:020d}.json")
    try:
        stream = path.getFileSystem(log.newDeltaHadoopConf()).open(path)
    except (Py4JJavaError, CapturedException) as error:
        if jvm.java_class(error).endswith("FileNotFoundException"):
            return None
        raise
    try:
        if first_only:
            text = jvm.java_type(session, "java.io.InputStreamReader")(stream, "UTF-8")
            reader = jvm.java_type(session, "java.io.BufferedReader")(text)
            lines = [str(reader.readLine() or "{}")]
        else:
            lines = str(jvm.java_type(session, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")).split("\n")
    finally:
        stream.close()
    return [json.loads(line) for line in lines if line.strip()]
