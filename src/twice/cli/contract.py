"""`twice contract`: what every table promises, as Markdown."""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

import click

from twice.cli.output import json_option, print_json
from twice.cli.settings import Settings, pass_settings
from twice.engine.attempt.determinism import code_facts
from twice.errors import UsageError
from twice.loading import find_pipeline, load_pipelines
from twice.model.contracts import contracts


@click.command(short_help="What every table promises, as Markdown.")
@click.argument("pipelines", nargs=-1, metavar="[PIPELINE]...")
@click.option("--check", type=click.Path(path_type=Path), metavar="FILE",
              help="Compare with FILE; exit code 1 and the difference if it is out of date.")  # fmt: skip
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE.")
@json_option
@pass_settings
def contract(
    settings: Settings, pipelines: tuple[str, ...], check: Path | None, write: Path | None, as_json: bool
) -> None:
    """Print the contracts of all tables of some pipelines, or of all, as Markdown.

    Partition, key, write pattern, lateness, gates, what is read and how, personal columns,
    owner. Equal definitions give equal text, so CI can compare it.

    \b
    twice contract shop --write docs/contracts.md
    twice contract shop --check docs/contracts.md
    """
    if check and write:
        raise UsageError("give --check or --write, not both")
    config = settings.config
    found = [find_pipeline(config, name) for name in pipelines] or list(load_pipelines(config).values())
    if not found:
        raise UsageError(
            f"{config.source or 'there is no twice.toml here or above, and so it'} names no pipelines",
            next_step="twice contract module:object",
        )
    text = contracts(found, code_facts)
    if check:
        _check(check, text, shlex.join(["twice", "contract", *pipelines, "--write", str(check)]), as_json=as_json)
    elif write:
        try:
            write.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{write} cannot be written: {error.strerror}") from None
        click.echo(f"wrote {write}", err=True)
    elif as_json:
        print_json({"pipelines": [pipeline.name for pipeline in found], "markdown": text})
    else:
        click.echo(text, nl=False)


def _check(file: Path, text: str, command: str, *, as_json: bool) -> None:
    try:
        there = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}", next_step=command) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    lines = difflib.unified_diff(
        there.splitlines(), text.splitlines(), f"{file}", "the pipelines as they are", lineterm=""
    )
    difference = "" if there == text else "\n".join(lines)
    if as_json:
        print_json({"file": str(file), "up_to_date": there == text, "difference": difference})
    elif difference:
        click.echo(difference)
    if there == text:
        click.echo(f"{file} is up to date", err=True)
        return
    click.echo(f"{file} is out of date\n  next: {command}", err=True)
    raise click.exceptions.Exit(1)
