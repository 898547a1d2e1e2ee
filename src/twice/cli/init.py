"""`twice init`: a small project that runs."""

from __future__ import annotations

import os
import re
import shlex
from importlib import resources
from pathlib import Path
from string import Template

import click

from twice.errors import UsageError

_FILES = {
    "twice.toml": "twice.toml",
    ".gitignore": "gitignore",
    "jobs/__init__.py": "jobs.txt",
    "jobs/{name}.py": "pipeline.txt",
    "tests/test_{name}.py": "test.txt",
}
_TAKEN = {"jobs", "tests", "twice", "pyspark"}


@click.command(short_help="Write a small project that runs.")
@click.argument("directory", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
@click.option("--name", default="sales", show_default=True, help="The name of the pipeline.")
def init(directory: Path, name: str) -> None:
    """Write a small project into DIR (here, if it is left out): a pipeline that runs, and its test.

    Existing files are never overwritten.

    \b
    twice init shop && cd shop
    twice run sales --for 2026-04-25
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in _TAKEN:
        raise UsageError(f"--name {name!r}: use small letters, digits and underscores, starting with a letter")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", unchanged="nothing was written")
    files = {directory / path.format(name=name): source for path, source in _FILES.items()}
    if there := [str(path) for path in files if os.path.lexists(path)]:
        raise UsageError(
            f"{', '.join(there)} already {'exists' if len(there) == 1 else 'exist'}",
            unchanged="nothing was written",
            next_step="twice init in an empty folder",
        )
    templates = resources.files("twice.cli") / "templates"
    try:
        for path, source in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (templates / source).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(name=name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
    click.echo("\n".join(["wrote", *(f"  {path}" for path in files), "", "now run"]))
    if directory != Path():
        click.echo(f"  cd {shlex.quote(str(directory))}")
    click.echo(f"  twice run {name} --for 2026-04-25 --explain   what would happen")
    click.echo(f"  twice run {name} --for 2026-04-25             do it; and again: nothing changes")
    click.echo("  twice status                                 what is done, missing or stale")
    click.echo("  python -m pytest                             its tests: a day can be run twice")
    click.echo("  twice doctor --warm                          once per machine: Spark starts in less time")
