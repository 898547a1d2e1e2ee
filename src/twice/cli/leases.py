"""`twice leases`: who holds what, and how to take it from a holder that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.model.names import TableName
from twice.model.tables import Table

if TYPE_CHECKING:
    from twice.engine.run import Runtime
    from twice.ledger import Abandoned


@click.group(invoke_without_command=True, short_help="List which runs hold which scopes.")
@json_option
@click.pass_context
def leases(context: click.Context, as_json: bool) -> None:
    """List the scopes that are held: by whom, since when, until when.

    A lease ends by itself when its process is gone; `release` takes it away at once.

    \b
    twice leases
    twice leases release lake.mart.revenue_daily 7
    """
    if context.invoked_subcommand:
        return
    settings = context.find_object(Settings)
    assert settings is not None  # noqa: S101 - made by run_command
    ledger = settings.ledger_if_any()
    found = ledger.leases.list() if ledger else []
    if as_json:
        print_json([lease.to_json() for lease in found])
    elif not found:
        print_text("nothing is held")
    else:
        rows = [
            [
                lease.table,
                lease.token,
                ", ".join(map(str, lease.scopes)),
                lease.state,
                lease.run or "",
                lease.owner,
                moment(lease.since),
                moment(lease.expires_at),
            ]
            for lease in found
        ]
        print_table(["table", "token", "scope", "state", "run", "held by", "since", "until"], rows)


@leases.command(short_help="Take a lease from its holder.")
@click.argument("table")
@click.argument("token", type=int)
@json_option
@pass_settings
def release(settings: Settings, table: str, token: int, as_json: bool) -> None:
    """Take the lease TOKEN of TABLE from its holder, and fence it: it can no longer publish."""
    name = str(TableName.parse(table))
    ledger = settings.ledger_if_any()
    if ledger is None:
        raise UsageError(f"lease {token} of {name}: there is no such lease", next_step="twice leases")
    abandoned = ledger.leases.take_over(name, token)
    with settings.runtime() as shop:
        landed = fence(shop, abandoned)
    text = released(abandoned, landed)
    if as_json:
        print_json({"table": name, "token": token, "run": abandoned.run, "landed": landed, "text": text})
    else:
        print_text(text)


def fence(runtime: Runtime, abandoned: Abandoned) -> str | None:
    """Stop a taken claim for good and settle it; return the version that it had published, if any."""
    table = Table(abandoned.table)
    landed = runtime.stores.of(table).fence(runtime.spark, table, abandoned.token)
    runtime.ledger.leases.settle(abandoned, landed=landed is not None, version=landed)
    return landed


def released(abandoned: Abandoned, landed: str | None) -> str:
    """Return what became of a lease."""
    whose = f"of run {abandoned.run}" if abandoned.run else "of a process without a run"
    if landed is None:
        return (
            f"the lease {abandoned.token} {whose} on {abandoned.table} is released: it had published nothing, "
            "its staged rows are dropped and it can no longer publish"
        )
    return (
        f"the lease {abandoned.token} {whose} on {abandoned.table} is released: it had published version {landed}, "
        "which stays and is recorded now"
    )
