"""Publish: one commit that adds the staged files, removes the scope's old ones, and records the token.

The token is a transaction id of Delta's: each scope has one, and it only grows. The run that takes a
claim over raises it to that claim's token. A transaction that has read it cannot commit once it has changed, so
of publish and fence only one can succeed. An error while committing is unknown, not failed: the log is
read before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from twice.failpoints import fail_point
from twice.model.streams import STREAM_MARK, StreamMark
from twice.store import claim_errors
from twice.store.commit_loop import attempts
from twice.store.delta import history, jvm
from twice.store.delta.claims import Claims
from twice.store.delta.layout import conditions
from twice.store.staged import Publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.store.delta.staging import DeltaStagedRows


def publish(session: SparkSession, publication: Publication[DeltaStagedRows]) -> str:
    """Make the staged partitions visible; return the new version."""
    staged = publication.staged
    notes = {history.TOKEN: str(staged.token), **publication.notes}
    for last in attempts():
        with jvm.active(session, notes):
            transaction = jvm.begin(session, staged.log)
            if not _is_ours(session, staged, transaction):
                return _landed_or_lost(session, staged)
            now = _require_unchanged(session, staged, transaction)
            actions = _actions(session, publication, transaction, now)
            fail_point("delta.ready")
            try:
                staged.tried = True
                version = jvm.commit(session, transaction, actions, _operation(session, staged))
            except (Py4JError, CapturedException) as error:
                if (landed := _look_up(session, staged)) is not None:
                    version = int(landed)
                elif not jvm.is_commit_race(error) or last:
                    raise
                else:
                    continue
        _tidy(session, publication)
        return str(version)
    raise AssertionError("unreachable")


def drop(session: SparkSession, staged: DeltaStagedRows, remember: Mapping[str, str]) -> None:
    """End staged rows that change nothing: the claim must be ours, the scope as it was; no data is committed."""
    for last in attempts():
        with jvm.active(session, {history.UNCHANGED: str(staged.token)}):
            transaction = jvm.begin(session, staged.log)
            if not _is_ours(session, staged, transaction):
                raise claim_errors.taken_over(staged.target, staged.token)
            _require_unchanged(session, staged, transaction)
            properties, marks = _marks(session, transaction, remember)
            if _remember(transaction, properties) or marks:
                operation = (
                    jvm.written(session, [], replaces=False) if marks else jvm.properties_set(session, properties)
                )
                try:
                    jvm.commit(session, transaction, marks, operation)
                except (Py4JError, CapturedException) as error:
                    if not jvm.is_commit_race(error) or last:
                        raise
                    continue
        Claims(session, staged.log).drop(staged.token)
        staged.ended = True
        return


def fence(session: SparkSession, log: Any, token: int) -> str | None:
    """Raise the claim's own transaction id to its token; return the version that it had published before, if any."""
    claims = Claims(session, log)
    for last in attempts():
        mark = claims.mark(token)
        with jvm.active(session, {history.FENCED: str(token)}):
            transaction = jvm.begin(session, log)
            known = jvm.tokens(transaction.snapshot())
            application = mark.application if mark else next((name for name in known if known[name] == token), "")
            landed = None
            if known.get(application, 0) >= token:
                newest = int(transaction.snapshot().version())
                landed = history.landed(session, log, newest, token, mark.base if mark else -1)
            elif application:
                jvm.token_of(transaction, application)  # if another commit changes it first, ours fails
                try:
                    jvm.commit(session, transaction, [jvm.claimed(session, application, token)])
                except (Py4JError, CapturedException) as error:
                    if not jvm.is_commit_race(error) or last:
                        raise
                    continue
        if landed is not None:  # where the log no longer shows it, the files may be the table's: VACUUM decides
            claims.end(token)
        elif mark is not None:
            claims.drop(token)
        return landed or None
    raise AssertionError("unreachable")


def _is_ours(session: SparkSession, staged: DeltaStagedRows, transaction: Any) -> bool:
    # Reading the id makes the commit depend on it: a fence that comes in between makes it fail.
    seen = jvm.token_of(transaction, staged.application)
    return not staged.ended and seen < staged.token and Claims(session, staged.log).mark(staged.token) is not None


def _actions(
    session: SparkSession, publication: Publication[DeltaStagedRows], transaction: Any, now: Sequence[jvm.FileInfo]
) -> list[Any]:
    staged, wanted = publication.staged, set(publication.partitions)
    removed: Sequence[jvm.FileInfo] = staged.removed
    added: Sequence[jvm.FileInfo] = staged.added
    if staged.replaces:
        removed = [file for file in now if staged.target.place(file.partition) in wanted]
        added = [file for file in staged.added if staged.target.place(file.partition) in wanted]
    remember, marks = _marks(session, transaction, publication.remember)
    _remember(transaction, remember, staged)
    stamp = jvm.java_type(session, "java.lang.System").currentTimeMillis()
    return [
        jvm.claimed(session, staged.application, staged.token),
        *marks,
        *(file.java.removeWithTimestamp(stamp, True) for file in removed),
        *(file.java for file in added),
    ]


def _marks(session: SparkSession, transaction: Any, remember: Mapping[str, str]) -> tuple[dict[str, str], list[Any]]:
    """Split off what a stream leaves with the table: its batch is a transaction id, not a property."""
    properties = dict(remember)
    mark = StreamMark.read(properties.pop(STREAM_MARK, None))
    return properties, [jvm.streamed(session, transaction.snapshot(), mark)] if mark is not None else []


def _operation(session: SparkSession, staged: DeltaStagedRows) -> Any:
    """Return the operation that the table's history shows."""
    if staged.removed:
        return jvm.rewritten(session)
    return jvm.written(session, conditions(staged.target), replaces=staged.replaces)


def _remember(transaction: Any, remember: Mapping[str, str], staged: DeltaStagedRows | None = None) -> bool:
    """Put properties and new columns into the transaction; return whether there were any."""
    live = transaction.metadata()
    known = jvm.configuration(live)
    new = {name: value for name, value in remember.items() if known.get(name) != value}
    schema = None
    if staged is not None and staged.adds_columns and staged.metadata is not None:
        schema = staged.metadata.schemaString()
        written = jvm.configuration(staged.metadata)
        mapping = "delta.columnMapping.maxColumnId"
        new |= {mapping: written[mapping]} if mapping in written else {}
    if not new and schema is None:
        return False
    properties = live.configuration()
    for name, value in new.items():
        properties = properties.updated(name, value)
    transaction.updateMetadata(jvm.changed(live, schema=schema, properties=properties), False)
    return True


def _require_unchanged(session: SparkSession, staged: DeltaStagedRows, transaction: Any) -> list[jvm.FileInfo]:
    """Refuse if another writer changed the scope since staging was opened; compaction does not count.

    Returns the scope's files; reading them makes the commit fail if another commit comes in between.
    """
    now_at = int(transaction.snapshot().version())
    now = jvm.files_read(session, transaction, staged.target, staged.snapshot, staged.base_files)
    if str(transaction.metadata().schemaString()) != staged.base_schema:
        raise claim_errors.changed(staged.target, "its columns were changed")
    if {file.identity for file in now} == {file.identity for file in staged.base_files}:
        return now
    if staged.removed:
        raise claim_errors.changed(staged.target, "changed")
    layout = jvm.layout_of(session, transaction.metadata())
    for version in range(int(str(staged.base)) + 1, now_at + 1):
        actions = history.commit_at(session, staged.log, version)
        if actions is None:
            raise claim_errors.changed(staged.target, "changed")
        for action in actions:
            fields = action.get("add") or action.get("remove") or {}
            if not fields.get("dataChange"):
                continue
            spelled = fields.get("partitionValues")
            if spelled is None or staged.target.place(layout.partition(spelled)) is not None:
                raise claim_errors.changed(staged.target, f"changed in version {version}")
    return now


def _tidy(session: SparkSession, publication: Publication[DeltaStagedRows]) -> None:
    """Remove the mark, and staged files of partitions that did not change; the next claim removes what stays."""
    staged, wanted = publication.staged, set(publication.partitions)
    staged.ended = True
    with suppress(Py4JError, CapturedException):
        claims = Claims(session, staged.log)
        if staged.replaces:
            claims.remove(file.path for file in staged.added if staged.target.place(file.partition) not in wanted)
        claims.end(staged.token)


def _landed_or_lost(session: SparkSession, staged: DeltaStagedRows) -> str:
    landed = _look_up(session, staged)
    if landed is None:
        raise claim_errors.taken_over(staged.target, staged.token)
    return landed


def _look_up(session: SparkSession, staged: DeltaStagedRows) -> str | None:
    """Look up in the log whether the commit landed; a log that cannot be read is a transient error."""
    try:
        newest = int(jvm.snapshot(session, staged.log).version())
        return history.landed(session, staged.log, newest, staged.token, int(str(staged.base))) or None
    except (Py4JError, CapturedException) as error:
        raise claim_errors.unanswered(staged, "its log") from error
