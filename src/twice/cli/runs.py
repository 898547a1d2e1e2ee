"""`twice runs` and `twice show`: what ran, and how each of its steps ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.errors import UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.ledger import AttemptInfo, Ledger, Output, RunInfo


@click.command(short_help="List the newest runs.")
@click.argument("pipeline", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="How many.")
@json_option
@pass_settings
def runs(settings: Settings, pipeline: str | None, limit: int, as_json: bool) -> None:
    """List the newest runs, of one PIPELINE or of all.

    \b
    twice runs shop --limit 5
    """
    name = find_pipeline(settings.config, pipeline).name if pipeline else None
    ledger = settings.ledger_if_any()
    found = ledger.runs.list(pipeline=name, limit=limit) if ledger else []
    if as_json:
        print_json([run.to_json() for run in found])
    elif not found:
        print_text("no runs yet")
    else:
        rows = [[run.id, run.pipeline, run.scope, _status(run), moment(run.started_at), _took(run)] for run in found]
        print_table(["run", "pipeline", "scope", "status", "started", "seconds"], rows)


@click.command(short_help="Show one run in full.")
@click.argument("run")
@json_option
@pass_settings
def show(settings: Settings, run: str, as_json: bool) -> None:
    """Show one RUN in full: attempts, pinned inputs, outputs, errors, tags, command.

    A unique prefix of its id is enough.

    \b
    twice show 06ksm4
    """
    ledger = settings.ledger_if_any()
    if ledger is None:
        raise UsageError(f"no run begins with {run!r}: nothing has run yet")
    found = ledger.runs.get(run)
    outputs = {attempt.id: outputs_of(ledger, attempt) for attempt in found.attempts}
    if as_json:
        document = found.to_json()
        document["attempts"] = [
            attempt.to_json() | {"outputs": [output.to_json() for output in outputs[attempt.id]]}
            for attempt in found.attempts
        ]
        print_json(document)
        return
    for line in _lines(found):
        print_text(line)
    for attempt in found.attempts:
        for line in _attempt(attempt, outputs[attempt.id]):
            print_text(line)


def outputs_of(ledger: Ledger, attempt: AttemptInfo) -> list[Output]:
    """Return what the tables still hold from this attempt; later runs may have replaced it."""
    if attempt.token is None:
        return []
    found = ledger.outputs.list(attempt.table, attempt.scope.window)
    return [output for output in found if output.run == attempt.run and output.token == attempt.token]


def _status(run: RunInfo) -> str:
    gates = dict.fromkeys(each["gate"] for each in run.accepted_gates)
    return f"{run.status}, accepted: {'; '.join(gates)}" if gates else run.status


def _took(run: RunInfo) -> str:
    return f"{(run.finished_at - run.started_at).total_seconds():.1f}" if run.finished_at else ""


def _lines(run: RunInfo) -> Iterator[str]:
    yield f"run {run.id}: {run.status}"
    yield f"  pipeline  {run.pipeline}"
    yield f"  scope     {run.scope}"
    yield f"  started   {moment(run.started_at)} on {run.owner}"
    if run.finished_at:
        yield f"  finished  {moment(run.finished_at)}, after {_took(run)} s"
    if run.command:
        yield f"  command   {run.command}"
    for name, value in run.tags.items():
        yield f"  tag       {name}={value}"
    yield from _made_with(run.environment)
    if run.error:
        yield "  error     " + run.error.replace("\n", "\n            ")


def _made_with(environment: Mapping[str, Any]) -> Iterator[str]:
    if commit := environment.get("commit"):
        yield f"  commit    {commit}" + (", with uncommitted changes" if environment.get("dirty") else "")
    if versions := environment.get("versions"):
        yield "  versions  " + ", ".join(f"{name} {version}" for name, version in versions.items())
    if jars := environment.get("jars"):
        yield f"  jars      {', '.join(jars)}"
    for name, value in environment.get("settings", {}).items():
        yield f"  setting   {name}={value}"


def _attempt(attempt: AttemptInfo, outputs: list[Output]) -> Iterator[str]:
    from twice.ledger import ACCEPTED_GATES

    yield f"  {attempt.step} → {attempt.table}, {attempt.scope}, attempt {attempt.number}: {attempt.status}"
    for record in attempt.inputs:
        yield f"    read {record.name} = {record.table} ({record.mode}) at version {record.version or 'none'}"
    if attempt.version:
        yield f"    wrote version {attempt.version}" + (f", {attempt.rows} rows" if attempt.rows is not None else "")
    for output in outputs:
        yield f"    holds {output.scope}: {output.rows} rows, digest {output.digest}"
    for each in attempt.accepted_gates:
        yield f"    accepted “{each['gate']}” of {each['partition']} ({each['found']}), because {each['because']}"
    for name, value in attempt.details.items():
        if name != ACCEPTED_GATES:
            yield f"    {name} {value}"
    if attempt.error:
        transient = " (transient)" if attempt.transient else ""
        yield f"    error{transient} " + attempt.error.replace("\n", "\n      ")
