"""Rows of claims: found, kept and taken in a transaction that is open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.errors import LeaseLost
from twice.ledger.db.database import insert_missing
from twice.ledger.db.schema import LIVE, OPEN, TAKEN, claims, tokens
from twice.ledger.values import Claim


def lock_table(connection: sa.Connection, table: str) -> int:
    """Let one transaction at a time decide about a table, until it ends; return the table's highest token."""
    insert_missing(connection, tokens, [{"table_name": table, "highest": 0}])
    query = sa.select(tokens.c.highest).where(tokens.c.table_name == table).with_for_update()
    return int(connection.execute(query).scalar_one())


def keep(connection: sa.Connection, claim: Claim, **values: object) -> None:
    """Compare and set: change the claim's row if it is still held, else raise `LeaseLost`."""
    if connection.execute(sa.update(claims).where(*held_by(claim)).values(**values)).rowcount:
        return
    row = find_claim(connection, claim.table, claim.token)
    state = row.state if row is not None else "not in the ledger"
    scope = ", ".join(str(scope) for scope in claim.scopes[:3]) + (", …" if len(claim.scopes) > 3 else "")
    raise LeaseLost(
        f"this run no longer holds {claim.table} {scope}: its claim (token {claim.token}) is {state}",
        unchanged="nothing was recorded; the run that took over decides what the table holds",
        next_step="look at `twice leases`, then run again",
    )


def held_by(claim: Claim) -> tuple[sa.ColumnElement[bool], ...]:
    """Match the row of a claim while it is held, by this owner: a restored ledger may give a token again."""
    return (
        claims.c.table_name == claim.table,
        claims.c.token == claim.token,
        claims.c.state == LIVE,
        claims.c.host == claim.owner.host,
        claims.c.pid == claim.owner.pid,
        claims.c.run.is_(None) if claim.run is None else claims.c.run == claim.run,
    )


def open_claims(connection: sa.Connection, table: str) -> Sequence[Any]:
    """Read and lock the claims of a table that are not closed."""
    # Locked: an owner that renews at this moment is either seen to have renewed, or finds its lease taken.
    query = sa.select(claims).where(claims.c.table_name == table, claims.c.state.in_(OPEN))
    return connection.execute(query.order_by(claims.c.token).with_for_update()).all()


def find_claim(connection: sa.Connection, table: str, token: int) -> Any:
    """Read and lock one claim; None if there is none."""
    query = sa.select(claims).where(claims.c.table_name == table, claims.c.token == token)
    return connection.execute(query.with_for_update()).one_or_none()


def take_claim(connection: sa.Connection, row: Any, now: datetime) -> None:
    """Take a live claim from its owner."""
    if row.state == LIVE:
        connection.execute(sa.update(claims).where(claims.c.id == row.id).values(state=TAKEN, ended_at=now))
