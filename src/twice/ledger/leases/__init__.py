"""Leases: who may publish which scopes of a table, and what an owner that vanished left behind.

live ──record──▶ recorded        live ──release──▶ released
live ──expired and claimed by another, or taken over──▶ taken ──settle──▶ settled
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.attempts.rows import ATTEMPT_ENDS, end_attempt
from twice.ledger.db.encoding import scopes_of, scopes_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import LIVE, OPEN, RELEASED, SETTLED, TAKEN, attempts, claims, tokens
from twice.ledger.inputs import store_inputs
from twice.ledger.leases.infos import LeaseInfo
from twice.ledger.leases.rows import find_claim, held_by, keep, lock_table, open_claims, take_claim
from twice.ledger.outputs.rows import adopt, forget
from twice.ledger.runs.rows import saw
from twice.ledger.values import Abandoned, Claim, InputRecord, Owner
from twice.model.scopes import Scope


class Leases(LedgerPart):
    """The part of the ledger that hands out claims and takes them back."""

    def claim(
        self,
        table: str,
        scopes: Sequence[Scope],
        *,
        ttl: timedelta,
        run: str | None = None,
        owner: Owner | None = None,
        floor: int = 0,
    ) -> Claim:
        """Claim all scopes or none; `floor` is the highest token that the table itself knows of."""
        wanted = tuple(dict.fromkeys(scopes))
        if not wanted:
            raise UsageError(f"a claim on {table} needs at least one scope")
        _check_ttl(ttl)
        owner = owner or Owner.here()
        with self._write() as connection:
            highest = lock_table(connection, table)
            rows = [row for row in open_claims(connection, table) if _overlap(wanted, scopes_of(row.scopes))]
            now = self._now(connection)
            holder = next((row for row in rows if row.state == LIVE and row.expires_at > now), None)
            if holder is None:
                token = max(highest, floor) + 1
                expires_at = now + ttl
                connection.execute(sa.update(tokens).where(tokens.c.table_name == table).values(highest=token))
                for row in rows:
                    take_claim(connection, row, now)
                connection.execute(
                    sa.insert(claims).values(
                        table_name=table,
                        token=token,
                        scopes=scopes_text(wanted),
                        run=run,
                        host=owner.host,
                        pid=owner.pid,
                        since=now,
                        expires_at=expires_at,
                        state=LIVE,
                    )
                )
            saw(connection, run, now)
        if holder is not None:
            raise _info(holder, now).refusal(wanted)
        abandoned = tuple(_abandoned(row) for row in rows)
        return Claim(table, token, wanted, owner, run, expires_at, ttl, abandoned)

    def bind(self, attempt: int, claim: Claim, *, base_version: str | None, inputs: Sequence[InputRecord]) -> None:
        """Record which claim an attempt works under, the table version it found, and its pinned inputs.

        This renews the lease; `LeaseLost` if it was taken over.
        """
        with self._write() as connection:
            keep(connection, claim, attempt=attempt, expires_at=self._now(connection) + claim.ttl)
            connection.execute(
                sa.update(attempts)
                .where(attempts.c.id == attempt)
                .values(
                    token=claim.token,
                    base_version=base_version,
                    inputs=store_inputs(connection, [inputs])[0],
                )
            )
            saw(connection, claim.run, self._now(connection))

    def renew(self, claim: Claim, ttl: timedelta) -> bool:
        """Prolong a lease; False if it was taken over or has ended."""
        _check_ttl(ttl)
        with self._write() as connection:
            changed = connection.execute(
                sa.update(claims).where(*held_by(claim)).values(expires_at=self._now(connection) + ttl)
            )
            return changed.rowcount == 1

    def holds(self, claim: Claim) -> bool:
        """Return whether the claim was neither taken over nor ended; expiry alone takes nothing away."""
        with self._read() as connection:
            return connection.scalar(sa.select(claims.c.id).where(*held_by(claim))) is not None

    def release(self, claim: Claim) -> None:
        """End a claim that published nothing; silent if it was taken over or has ended."""
        with self._write() as connection:
            now = self._now(connection)
            changed = connection.execute(sa.update(claims).where(*held_by(claim)).values(state=RELEASED, ended_at=now))
            if changed.rowcount:
                forget(connection, claim.table, claim.token)
                saw(connection, claim.run, now)

    def take_over(self, table: str, token: int) -> Abandoned:
        """Take a lease from its owner at once, who can no longer record under it."""
        with self._write() as connection:
            lock_table(connection, table)
            row = find_claim(connection, table, token)
            if row is None or row.state not in OPEN:
                ended = "there is no such lease" if row is None else f"it was {row.state} and holds nothing"
                raise UsageError(f"lease {token} of {table}: {ended}", next_step="twice leases")
            take_claim(connection, row, self._now(connection))
        return _abandoned(row)

    def settle(self, abandoned: Abandoned, *, landed: bool, version: str | None = None) -> None:
        """Close a taken claim: adopt what it published, or record that it was lost; settling twice is harmless."""
        with self._write() as connection:
            lock_table(connection, abandoned.table)
            row = find_claim(connection, abandoned.table, abandoned.token)
            if row is None or row.state != TAKEN:
                return
            now = self._now(connection)
            connection.execute(sa.update(claims).where(claims.c.id == row.id).values(state=SETTLED, ended_at=now))
            if not landed:
                forget(connection, row.table_name, row.token)
                if row.attempt is not None:
                    end_attempt(connection, row.attempt, "lost", now, unless=ATTEMPT_ENDS)
                return
            rows, found = adopt(connection, row.table_name, row.token, now, version)
            if row.attempt is not None:
                end_attempt(
                    connection,
                    row.attempt,
                    "published",
                    now,
                    details={"adopted": True},
                    rows=rows,
                    version=found,
                )

    def list(self) -> list[LeaseInfo]:
        """List what is held, and what was abandoned and waits for its successor."""
        with self._read() as connection:
            now = self._now(connection)
            query = sa.select(claims).where(claims.c.state.in_(OPEN))
            rows = connection.execute(query.order_by(claims.c.table_name, claims.c.token)).all()
        return [_info(row, now) for row in rows]


def _info(row: Any, now: datetime) -> LeaseInfo:
    return LeaseInfo(
        row.table_name,
        scopes_of(row.scopes),
        row.token,
        row.run,
        Owner(row.host, row.pid),
        row.since,
        row.expires_at,
        "expired" if row.state == LIVE and row.expires_at <= now else row.state,
    )


def _abandoned(row: Any) -> Abandoned:
    return Abandoned(row.table_name, row.token, row.run, scopes_of(row.scopes), row.attempt)


def _overlap(ours: Sequence[Scope], theirs: Sequence[Scope]) -> bool:
    if not _hull(ours).overlaps(_hull(theirs)):
        return False
    return any(mine.overlaps(other) for mine in ours for other in theirs)


def _hull(scopes: Sequence[Scope]) -> Scope:
    """The smallest scope without dimensions around all of them: it keeps long claims readable."""
    windows = [scope.window for scope in scopes if scope.window]
    if len(windows) < len(scopes):
        return Scope(None)
    return Scope(type(windows[0])(min(w.start for w in windows), max(w.end for w in windows)))


def _check_ttl(ttl: timedelta) -> None:
    if ttl <= timedelta(0):
        raise UsageError(f"a lease must last more than 0 seconds, got {ttl.total_seconds():g}")
