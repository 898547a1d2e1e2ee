"""Outputs: what each partition of a table holds; prepared before the publish, current after it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.attempts.rows import ATTEMPT_ENDS, add_details, end_attempt
from twice.ledger.db.conditions import touching, touching_or_whole
from twice.ledger.db.encoding import scope_text, to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import CURRENT, PENDING, RECORDED, SUPERSEDED, claims, outputs
from twice.ledger.leases.rows import keep, lock_table
from twice.ledger.outputs.holdings import Holding, current_in, select_holdings, select_input_texts
from twice.ledger.outputs.rows import (
    IS_CURRENT,
    current_outputs,
    forget,
    insert_outputs,
    read_outputs,
    row_counts,
    supersede,
)
from twice.ledger.runs.rows import saw
from twice.ledger.values import Claim, Output
from twice.model.scopes import Scope
from twice.model.windows import Window


class Outputs(LedgerPart):
    """The part of the ledger that knows what every partition holds."""

    def prepare(
        self,
        claim: Claim,
        attempt: int,
        outputs: Sequence[Output],
        *,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Save what is about to be published, so that a successor can adopt it; `details` stay with the attempt.

        This renews the lease, so that it holds for the publish; `LeaseLost` if it was taken over.
        """
        _check(claim, outputs)
        with self._write() as connection:
            now = self._now(connection)
            keep(connection, claim, attempt=attempt, expires_at=now + claim.ttl)
            forget(connection, claim.table, claim.token)
            insert_outputs(connection, claim, outputs, PENDING, now)
            if details:
                add_details(connection, attempt, details)

    def record(
        self,
        claim: Claim,
        attempt: int,
        outputs: Sequence[Output],
        *,
        status: str = "published",
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Make the outputs current, end the attempt and the lease: all of it, or `LeaseLost`."""
        _check(claim, outputs)
        if status not in ATTEMPT_ENDS:
            raise UsageError(f"the end of an attempt must be one of {', '.join(sorted(ATTEMPT_ENDS))}, got {status!r}")
        with self._write() as connection:
            lock_table(connection, claim.table)
            if _recorded_before(connection, claim, attempt):
                return
            now = self._now(connection)
            keep(connection, claim, attempt=attempt, state=RECORDED, ended_at=now)
            forget(connection, claim.table, claim.token)
            supersede(connection, claim.table, [output.scope for output in outputs], now)
            insert_outputs(connection, claim, outputs, CURRENT, self._now(connection))
            end_attempt(
                connection,
                attempt,
                status,
                now,
                details=details,
                rows=sum(output.rows for output in outputs),
                version=next((output.version for output in outputs if output.version is not None), None),
            )
            saw(connection, claim.run, now)

    def rerecord(self, table: str, files: Mapping[Scope, str], version: str | None) -> None:
        """Record the new files of unchanged content, after maintenance."""
        with self._write() as connection:
            lock_table(connection, table)
            for scope, fingerprint in files.items():
                connection.execute(
                    sa.update(outputs)
                    .where(outputs.c.table_name == table, outputs.c.scope == scope_text(scope), IS_CURRENT)
                    .values(files=fingerprint, version=version)
                )

    def find(self, table: str, scope: Scope) -> Output | None:
        """Return what exactly this scope holds, None if nothing is recorded."""
        with self._read() as connection:
            found = current_outputs(connection, outputs.c.table_name == table, outputs.c.scope == scope_text(scope))
        return found[0] if found else None

    def held(self, table: str, scope: Scope) -> list[Output]:
        """List what a scope's own partitions hold: those in its window that have its very dimensions."""
        within = touching(scope.window, outputs) if scope.window else outputs.c.window_start.is_(None)
        mine = outputs.c.dimensions == to_text(dict(scope.dimensions))
        with self._read() as connection:
            return current_outputs(connection, outputs.c.table_name == table, mine, within)

    def recorded_by(self, table: str, token: int) -> list[Output]:
        """List what a claim has recorded of a table, also where later runs have replaced it since."""
        mine = (outputs.c.table_name == table, outputs.c.token == token, outputs.c.state != PENDING)
        with self._read() as connection:
            return read_outputs(connection, *mine)

    def built_until(self, table: str, scope: Scope) -> datetime | None:
        """Return where what was built before a scope ends, of dimensions that overlap the scope's."""
        assert scope.window is not None  # noqa: S101 - asked for a run, which has a window
        c, start = outputs.c, scope.window.start
        before = (c.table_name == table, IS_CURRENT, c.window_end <= start)
        mine = c.dimensions == to_text(dict(scope.dimensions))
        newest = sa.select(c.dimensions, sa.func.max(c.window_end).label("until")).where(*before).group_by(c.dimensions)
        with self._read() as connection:
            # Nearly always the partition before is there, and no other dimensions need be read.
            if connection.execute(sa.select(c.id).where(*before, mine, c.window_end == start).limit(1)).first():
                return start
            rows = connection.execute(newest).all()
        whole = Scope(None, scope.dimensions)
        return max(
            (row.until for row in rows if Scope.of(None, json.loads(row.dimensions)).overlaps(whole)), default=None
        )

    def row_counts(self, table: str, scope: Scope, limit: int) -> list[int]:
        """Return row counts of the partitions before this one, nearest first.

        A whole table has no partitions before it: there it is the table's own earlier counts.
        """
        with self._read() as connection:
            return row_counts(connection, table, scope, limit)

    def changed_since(self, table: str, window: Window | None, moment: datetime) -> list[Output]:
        """List what has been published with another content since a moment."""
        mine = [outputs.c.table_name == table]
        if window:
            mine.append(touching_or_whole(window, outputs))
        then = (
            outputs.c.recorded_at <= moment,
            sa.or_(outputs.c.superseded_at.is_(None), outputs.c.superseded_at > moment),
        )
        query = sa.select(outputs.c.scope, outputs.c.digest).where(
            *mine, *then, outputs.c.state.in_((CURRENT, SUPERSEDED))
        )
        with self._read() as connection:
            newer = current_outputs(connection, *mine, outputs.c.recorded_at > moment)
            before = {row.scope: row.digest for row in connection.execute(query)} if newer else {}
        return [output for output in newer if before.get(scope_text(output.scope)) != output.digest]

    def holdings(self, table: str, window: Window | None = None) -> list[Holding]:
        """List what the partitions of a window hold, all of them without a window, oldest first."""
        with self._read() as connection:
            rows = connection.execute(select_holdings(table, window)).all()
        return list(map(Holding._make, rows))

    def input_texts(self, table: str, window: Window | None = None) -> dict[str, str]:
        """Return the lists of inputs that the holdings name, each as its JSON text."""
        with self._read() as connection:
            rows = connection.execute(select_input_texts(table, window)).all()
        return {key: text for key, text in rows}  # noqa: C416 - rows are no tuples for the type checker

    def list(self, table: str, window: Window | None = None) -> list[Output]:
        """List what the partitions of a window hold, all of them without a window."""
        with self._read() as connection:
            return current_outputs(connection, *current_in(table, window))


def _check(claim: Claim, new: Sequence[Output]) -> None:
    strangers = sorted({output.table for output in new} - {claim.table})
    if strangers:
        raise UsageError(f"a claim on {claim.table} records outputs of no other table: {strangers[0]}")
    if len({scope_text(output.scope) for output in new}) < len(new):
        raise UsageError(f"two outputs of {claim.table} for one and the same scope")


def _recorded_before(connection: sa.Connection, claim: Claim, attempt: int) -> bool:
    """Return whether this very record was committed and only its acknowledgement was lost."""
    found = sa.select(claims.c.id).where(
        claims.c.table_name == claim.table,
        claims.c.token == claim.token,
        claims.c.state == RECORDED,
        claims.c.attempt == attempt,
        claims.c.host == claim.owner.host,
        claims.c.pid == claim.owner.pid,
    )
    return connection.scalar(found) is not None
