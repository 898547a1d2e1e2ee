"""The errors of a claim that cannot publish, which every store raises with the same message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.errors import Conflict, LeaseLost

if TYPE_CHECKING:
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.store.protocol import StagedRows


def taken_over(target: Target, token: int) -> LeaseLost:
    """Return the error that another run has fenced the claim."""
    return LeaseLost(
        f"{target.table.name}, {target.scope}: the claim {token} was taken over by another run",
        unchanged="nothing was published by this run",
        next_step="look at `twice leases`, then run again",
    )


def dropped(table: Table) -> Conflict:
    """Return the error that the table was dropped between `prepare` and `open`."""
    return Conflict(
        f"{table.name} was dropped while the run was preparing to write it",
        unchanged="nothing was published",
        next_step="run it again",
    )


def changed(target: Target, what: str = "changed", *, where: str = "", which: str = "") -> Conflict:
    """Return the error that the scope, or the part that `where` names, has changed since staging was opened."""
    return Conflict(
        f"{target.table.name}, {where or target.scope}: {what} by another writer between claim and publish"
        f"{f' ({which})' if which else ''}",
        unchanged="nothing was overwritten",
        next_step="run it again: the new run starts from what is there now",
    )


def unanswered(staged: StagedRows, asked: str) -> Conflict:
    """Return the error that a commit may or may not have happened, and `asked`, which knows, does not answer."""
    return Conflict(
        f"{staged.target.table.name}: the commit of claim {staged.token} got no answer, and {asked} cannot be reached",
        unchanged="the table holds the old version or the new one; the next run finds out which, and continues",
        next_step=f"run it again once {asked} answers",
    )
