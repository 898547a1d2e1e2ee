"""`twice audit`: find what breaks in existing jobs when they run twice."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from twice.cli.settings import Settings, is_terminal, pass_settings
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.audit.api import Outcome, Part
    from twice.audit.config import AuditConfig
    from twice.audit.findings import Finding, Severity
    from twice.audit.ranking import Ranked
    from twice.audit.running import Progress

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown", "html")
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@click.command(short_help="Find what breaks in existing jobs when they run twice.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATHS]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The form of the findings (html: with --rank).",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these rules: codes or prefixes, such as TW3,TW101."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--dialect", metavar="NAME", help="The SQL dialect of all files; without it, guessed for each file.")
@click.option(
    "--fail-on",
    "fail_on",
    type=click.Choice(["info", "warning", "error"]),
    help="Exit 1 from this severity on (default: warning).",
)
@click.option("--diff", "since", metavar="BASE", help="Only findings on lines that changed since the commit BASE.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Only findings that are not in FILE.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all findings of today to FILE.",
)
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option(
    "--rank", is_flag=True, help="Order jobs by risk; with --format markdown or html a page for the whole fleet."
)
@click.option("--fix", is_flag=True, help="Repair what is mechanical and safe.")
@click.option("--unsafe-fixes", is_flag=True, help="Also repair what needs a review afterwards.")
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N", help="How many processes to use (default: one per core)."
)
@click.option("--no-cache", is_flag=True, help="Read every file again.")
@pass_settings
def audit(
    settings: Settings,
    paths: tuple[Path, ...],
    form: str,
    output: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    dialect: str | None,
    fail_on: str | None,
    since: str | None,
    baseline: Path | None,
    write_baseline: Path | None,
    statistics: bool,
    rank: bool,
    fix: bool,
    unsafe_fixes: bool,
    processes: int | None,
    no_cache: bool,
) -> None:
    """Read PySpark, SQL, dbt, notebooks and DAGs, and report what is unsafe to rerun, by file and line.

    Nothing is run, imported or connected to, and Spark need not be installed. PATHS are files or
    folders; without them, the current folder.

    \b
    twice audit jobs/                          findings with their source lines
    twice audit jobs/ --rank --format html --output fleet.html
    twice audit jobs/ --write-baseline audit-baseline.json
    twice audit jobs/ --diff origin/main       what a pull request adds
    twice rule TW301                           what a code means, and what to write instead

    A line is accepted with its reason: `# twice: ok TW301 because …` (`--` in SQL).
    Settings: [tool.twice.audit] of pyproject.toml or [audit] of twice.toml. Exit codes: 0 nothing
    found; 1 found something; 2 usage.
    """
    from twice.audit import api

    _check_forms(form, statistics=statistics, rank=rank)
    given = paths or (Path(),)
    _exist(given)
    parts = [
        replace(part, config=_with_options(part.config, select, ignore, dialect, fail_on))
        for part in _parts(given, settings.config_file, baseline, known=write_baseline is None)
    ]
    outcome = api.audit(
        parts, since=since, fix=fix, unsafe_fixes=unsafe_fixes, processes=processes, use_cache=not no_cache,
        progress=_progress(settings), shown_from=_shown_from(form),
    )  # fmt: skip
    _report_files(outcome)
    if write_baseline is not None:
        _write_baseline(outcome, write_baseline)
        return
    fails = min(part.config.fail_on for part in parts)
    _report(settings, outcome, fails, form, output, statistics=statistics, rank=rank)
    if any(one.severity >= fails for one in outcome.summary.findings):
        raise click.exceptions.Exit(1)


def _write_baseline(outcome: Outcome, file: Path) -> None:
    from twice.audit.baseline import write

    count = write(file, outcome.audited.findings, outcome.by_path)
    click.echo(f"wrote {count} findings to {file}; from now on: twice audit … --baseline {file}", err=True)


def _report_files(outcome: Outcome) -> None:
    """Print what was left out, and what was repaired."""
    for path in outcome.skipped:
        click.echo(f"left out {path}: it is not Python, SQL or a notebook", err=True)
    if outcome.fixed:
        click.echo(
            f"repaired {outcome.fixed} in {outcome.fixed_files} files; review the changes before you commit them",
            err=True,
        )


def _check_forms(form: str, *, statistics: bool, rank: bool) -> None:
    if form == "html" and not rank:
        raise UsageError("--format html is for --rank")
    if statistics and rank:
        raise UsageError("--statistics counts findings, --rank orders jobs: ask for one of them")
    if statistics and form not in {"text", "json"}:
        raise UsageError(f"--statistics has no {form} form; there are: text, json")


def _parts(given: tuple[Path, ...], file: Path | None, baseline: Path | None, *, known: bool) -> list[Part]:
    """Give each path the configuration that is nearest to it; without one, all share the settings by default."""
    from twice.audit.api import Part
    from twice.audit.config import load

    folders: dict[Path, AuditConfig] = {}
    found: dict[Path | None, Part] = {}
    for path in given:
        folder = (path if path.is_dir() else path.parent).resolve()
        config = folders.get(folder) or folders.setdefault(folder, load(folder, file))
        own = config.root / config.baseline if config.baseline and known else None
        before = found.get(config.source)
        found[config.source] = Part((*(before.paths if before else ()), path), config, baseline or own)
    return list(found.values())


def _shown_from(form: str) -> Path:
    """Return the folder that paths are shown relative to: the current one, or the repository's root for code hosts."""
    from twice.audit.files import below_git

    here = Path.cwd()
    return (below_git(here.resolve()) or here) if form in {"github", "sarif"} else here


def _exist(paths: tuple[Path, ...]) -> None:
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {path}")


def _with_options(
    config: AuditConfig, select: tuple[str, ...], ignore: tuple[str, ...], dialect: str | None, fail_on: str | None
) -> AuditConfig:
    from twice.audit.config import codes, severity
    from twice.audit.config import dialect as check_dialect

    if select:
        config = replace(config, select=codes(_words(select), "--select"))
    if ignore:
        config = replace(config, ignore=(*config.ignore, *codes(_words(ignore), "--ignore")))
    if dialect:
        config = replace(config, dialect=check_dialect(dialect, "--dialect"), dialects=())
    if fail_on:
        config = replace(config, fail_on=severity(fail_on, "--fail-on"))
    return config


def _words(texts: tuple[str, ...]) -> list[str]:
    return [word for text in texts for word in text.split(",") if word.strip()]


def _progress(settings: Settings) -> Progress | None:
    """Return what shows the progress of more than two seconds: on a terminal in place, else every ten seconds."""
    if settings.verbosity < 0 or settings.json_logs:
        return None
    started = shown = time.monotonic()
    terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - started < 2 or now - shown < (0.2 if terminal else 10):
            if terminal and done == total and shown > started:
                click.echo("\r\x1b[K", nl=False, err=True)
            return
        shown = now
        text = f"read {done} of {total} files"
        click.echo(
            f"\r\x1b[K{text}" if terminal and done < total else "\r\x1b[K" if terminal else text,
            nl=not terminal,
            err=True,
        )

    return show


def _report(
    settings: Settings,
    outcome: Outcome,
    fails: Severity,
    form: str,
    output: Path | None,
    *,
    statistics: bool,
    rank: bool,
) -> None:
    summary = outcome.summary
    if rank:
        text = _ranked(outcome, form)
    elif statistics:
        text = _statistics(outcome, form)
    elif form == "text":
        if output is None and is_terminal():
            _draw(summary.findings)
            text = ""
        else:
            text = _plain(summary.findings)
    else:
        text = _formatted(outcome, fails, form)
    if output is not None:
        try:
            output.write_text(text + ("" if text.endswith("\n") or not text else "\n"), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    elif text:
        click.echo(text, nl=not text.endswith("\n"))
    if settings.verbosity >= 0 and (form in {"text", "github"} or output is not None):
        click.echo(summary.sentence(), err=True)


def _formatted(outcome: Outcome, fails: Severity, form: str) -> str:
    from twice.audit.output import machine, markdown

    if form == "json":
        return machine.as_json(outcome.summary)
    if form == "sarif":
        return machine.as_sarif(outcome.summary)
    if form == "github":
        return machine.as_github(outcome.summary)
    if form == "junit":
        return machine.as_junit(outcome.summary, fails)
    return markdown.as_markdown(outcome.summary)


def _plain(findings: list[Finding] | tuple[Finding, ...] | object) -> str:
    from twice.audit.findings import Finding

    lines: list[str] = []
    for one in findings if isinstance(findings, (list, tuple)) else ():
        assert isinstance(one, Finding)  # noqa: S101 - made by the audit
        lines.append(f"{one.path}:{one.line}:{one.column}: {one.code} {one.severity}: {one.message}")
        if one.source.strip():
            lines.append(f"    {one.source.strip()[:160]}")
        if one.instead:
            lines.append(f"    instead: {one.instead}")
        if one.with_twice:
            lines.append(f"    with twice: {one.with_twice}")
    return "\n".join(lines)


def _draw(findings: object) -> None:
    """Draw findings for a terminal: place, code, sentence, source line, what to write instead."""
    from rich.console import Console
    from rich.text import Text

    from twice.audit.findings import Finding

    console = Console()
    for one in findings if isinstance(findings, (list, tuple)) else ():
        assert isinstance(one, Finding)  # noqa: S101 - made by the audit
        head = Text.assemble(
            (f"{one.path}:{one.line}:{one.column}", "bold"),
            " ",
            (one.code, _STYLES[str(one.severity)]),
            " ",
            one.message,
        )
        console.print(head, soft_wrap=True)
        if one.source.strip():
            console.print(Text.assemble((f"{one.line:>6} │ ", "dim"), one.source.strip()[:200]), soft_wrap=True)
        if one.instead:
            console.print(Text.assemble(("     instead: ", "green"), one.instead), soft_wrap=True)
        if one.with_twice:
            console.print(Text.assemble((" with twice: ", "green"), one.with_twice), soft_wrap=True)
        console.print()


def _statistics(outcome: Outcome, form: str) -> str:
    import json

    from twice.audit.rules import rules

    known = rules()
    counted = outcome.summary.statistics()
    if form == "json":
        return json.dumps(dict(counted), indent=2)
    return "\n".join(f"{count:>6}  {code}  {known[code].title if code in known else ''}" for code, count in counted)


def _ranked(outcome: Outcome, form: str) -> str:
    import json
    from dataclasses import asdict

    from twice.audit.output import fleet as pages
    from twice.audit.ranking import Fleet
    from twice.audit.ranking import rank as order

    shown = set(outcome.summary.findings)
    results = [
        replace(result, findings=tuple(one for one in result.findings if one in shown))
        for result in outcome.audited.results
    ]
    fleet = Fleet(order(results))
    if form == "html":
        return pages.as_html(fleet)
    if form == "markdown":
        return pages.as_markdown(fleet)
    if form == "json":
        jobs = [
            {**asdict(replace(job, worst=None)), "worst": job.worst.message if job.worst else ""} for job in fleet.jobs
        ]
        return json.dumps({"headline": pages.headline(fleet), "jobs": jobs}, indent=2, ensure_ascii=False)
    if form != "text":
        raise UsageError(f"--rank has no {form} form; there are: text, json, markdown, html")
    lines = [pages.headline(fleet), ""]
    lines += [_rank_line(job) for job in fleet.jobs if job.risk > 0]
    return "\n".join(lines)


def _rank_line(job: Ranked) -> str:
    return f"{job.risk:>8g}  {job.errors:>3} errors {job.warnings:>3} warnings  {job.path}  {' '.join(job.codes)}"
