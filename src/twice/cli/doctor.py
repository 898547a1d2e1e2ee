"""`twice doctor`: what is wrong with this machine, and what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from twice.cli.output import json_option, print_json, print_text
from twice.cli.problems import report_error
from twice.cli.settings import Settings, is_terminal, pass_settings, require_pyspark
from twice.config import Config, load
from twice.errors import ConfigError, TwiceError

if TYPE_CHECKING:
    from twice.engine.doctor import Finding


@click.command(short_help="Check this machine, and show what to run.")
@click.option("--fetch", is_flag=True, help="Fetch the jars that are missing; needs no twice.toml.")
@click.option("--warm", is_flag=True, help="Make Java's class-data archive, with which Spark starts sooner.")
@click.option("--deep", is_flag=True, help="Also start Spark and ask the stores.")
@json_option
@pass_settings
def doctor(settings: Settings, fetch: bool, warm: bool, deep: bool, as_json: bool) -> None:
    """Look at Java, PySpark, jars, configuration, ledger, catalog, clock and disk.

    Each line says what is wrong and what to run. Exit code 1 if something is wrong, 3 if jars
    could not be fetched or the archive could not be made.

    \b
    twice doctor --fetch --warm
    twice doctor --deep
    """
    from twice.engine import doctor as engine

    findings: list[Finding] = []
    config = _config(settings, findings)
    failed: TwiceError | None = None
    try:
        if fetch:
            engine.fetch(config)
        if warm:
            _warm(settings)
    except TwiceError as error:
        failed = error
    findings += engine.examine(config)
    if deep:
        try:
            require_pyspark()
            findings += engine.stores(config)
        except TwiceError as error:
            findings.append(engine.Finding("store", False, error.message, "solve the problems above first"))
    if as_json:
        print_json({"ok": all(finding.ok for finding in findings), "findings": [f.to_json() for f in findings]})
    else:
        for finding in findings:
            print_text(_line(finding))
    code = 0 if all(finding.ok for finding in findings) else 1
    if failed:
        code = report_error(settings, failed)
    if code:
        raise click.exceptions.Exit(code)


def _warm(settings: Settings) -> None:
    """Make the archive of this project's start; a broken configuration is refused, as its start is not known."""
    config = settings.config
    require_pyspark()
    from twice.engine import warming

    def report(line: str) -> None:
        if settings.verbosity >= 0:
            click.echo(line, err=True)

    warming.make(config, report)


def _config(settings: Settings, findings: list[Finding]) -> Config:
    """Read the configuration; a broken one is a finding, and the rest is checked without it."""
    from pathlib import Path

    from twice.engine.doctor import Finding

    try:
        return settings.config
    except ConfigError as error:
        findings.append(Finding("configuration", False, error.message, error.next_step))
        # The root of the file system has no configuration above it.
        return load(start=Path(Path.cwd().anchor), profile="default")


def _line(finding: Finding) -> str:
    word = "ok" if finding.ok else "problem"
    shown = click.style(word.ljust(7), fg="green" if finding.ok else "red") if is_terminal() else word.ljust(7)
    hint = f"\n         next: {finding.next_step}" if finding.next_step and not finding.ok else ""
    return f"{shown}  {finding.name}: {finding.text}{hint}"
