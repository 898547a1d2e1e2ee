"""`twice rule`: what a code of the audit means."""

from __future__ import annotations

import difflib

import click

from twice.cli.output import json_option, print_json
from twice.errors import UsageError


@click.command(short_help="Explain a code of the audit.")
@click.argument("code", required=False, metavar="[CODE]")
@json_option
def rule(code: str | None, as_json: bool) -> None:
    """Explain what a rule finds, what happens on the second run, and what to write instead.

    Without CODE, list all rules; with a prefix, such as TW3, its family.

    \b
    twice rule
    twice rule TW301
    """
    from twice.audit.rules import rules

    known = rules()
    if code is None:
        chosen = list(known.values())
    else:
        wanted = code.strip().upper()
        chosen = [one for one in known.values() if one.code == wanted] or [
            one for one in known.values() if one.code.startswith(wanted)
        ]
        if not chosen or not wanted.startswith("TW"):
            near = difflib.get_close_matches(wanted, known, n=1)
            raise UsageError(
                f"there is no rule {code}", next_step=f"twice rule {near[0]}" if near else "twice rule, for all codes"
            )
    if as_json:
        print_json(
            [
                {
                    "code": one.code,
                    "severity": str(one.severity),
                    "title": one.title,
                    "documentation": one.documentation,
                }
                for one in chosen
            ]
        )
    elif len(chosen) == 1 and code is not None:
        one = chosen[0]
        click.echo(f"{one.code} ({one.severity}): {one.documentation}")
    else:
        for one in chosen:
            click.echo(f"{one.code}  {one.severity!s:<8} {one.title}")
