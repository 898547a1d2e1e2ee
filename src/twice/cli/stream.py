"""`twice stream`: run guarded streams, look at them, stop them, read past batches again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from twice.cli.logs import log_line, without_passwords
from twice.cli.options import tags_of
from twice.cli.output import json_option, moment, print_json, print_table, print_text
from twice.cli.settings import Settings, pass_settings
from twice.cli.stopping import stopping
from twice.errors import UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.ledger import BatchInfo, Ledger, StreamInfo
    from twice.model.pipelines import Pipeline
    from twice.model.streams import Stream
    from twice.streams.progress import Progress

_RECENT = 20
_POLL = 0.5


@click.group(short_help="Streams: run, status, stop, replay.")
def stream() -> None:
    """Run streams whose events land once, and read past batches again.

    \b
    twice stream run shop clicks
    twice stream replay shop clicks --from 2026-04-21 --to 2026-04-22
    """


@stream.command(short_help="Run a stream until it is stopped.")
@click.argument("pipeline")
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--available-now", is_flag=True, help="Read what is there now, then end.")
@click.option("--resume-from-table", is_flag=True,
              help="Trust what the table holds: create a new checkpoint that continues from there.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag recorded with the run.")
@json_option
@pass_settings
def run(
    settings: Settings,
    pipeline: str,
    name: str | None,
    available_now: bool,
    resume_from_table: bool,
    tags: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a stream until Ctrl-C or `twice stream stop`; it ends after the batch that is under way.

    STREAM may be left out where the pipeline has one. With --json every batch is one line, and the result the last.

    \b
    twice stream run shop clicks
    twice stream run shop clicks --available-now
    """
    found = find_pipeline(settings.config, pipeline)
    wanted = found.find_stream(name)
    kept_tags = tags_of(tags, settings.secrets)
    # PySpark installs its own handler for Ctrl-C when Spark starts, so ours is installed after that.
    with _reporting(settings, as_json=as_json) as report, settings.runtime() as shop, stopping() as stop:
        from twice.streams.control import Request, run_stream

        request = Request(available_now, resume_from_table, settings.command, kept_tags, stop, report)
        done = run_stream(shop, found, wanted, settings.config.checkpoints, request)
    if as_json:
        print_json(done.to_json(), long=True)
    else:
        print_text(
            f"run {done.run} of {done.stream}: {done.status} after {done.batches} batches: {done.rows_in:,} in, "
            f"{done.rows_out:,} out, {done.duplicates:,} duplicate, {done.late:,} late"
        )


@stream.command(short_help="Show streams and their latest batches.")
@click.argument("pipeline", required=False)
@click.argument("name", metavar="[STREAM]", required=False)
@json_option
@pass_settings
def status(settings: Settings, pipeline: str | None, name: str | None, as_json: bool) -> None:
    """Show streams: state, last batch, rows and repeats of the latest batches. Spark is not started.

    \b
    twice stream status
    twice stream status shop clicks --json
    """
    ledger = settings.ledger_if_any()
    found = ledger.streams.list(pipeline, name) if ledger is not None else []
    if ledger is None or not found:
        if as_json:
            print_json([])
        else:
            print_text("no stream has run yet")
        return
    known = [(info, *_state(ledger, info), _recent(ledger, info)) for info in found]
    if as_json:
        print_json([info.to_json() | {"status": state, "error": error, "batches": [each.to_json() for each in recent]}
                    for info, state, error, recent in known])  # fmt: skip
        return
    columns = ["stream", "status", "last batch", "ended", "rows in", "rows out", "duplicate", "late", "rows/s", "keys"]
    print_table(columns, [_row(info, state, recent) for info, state, _, recent in known])
    for info, _, error, _ in known:
        if error:
            print_text(f"{info.pipeline}.{info.stream}: {error.splitlines()[0]}")
    print_text("lag unknown: it is not recorded; twice stream run shows it where the source reports it (Kafka, Delta)")


@stream.command()
@click.argument("pipeline")
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
              help="Wait up to this long for it to end; exit code 1 if it still runs.")  # fmt: skip
@json_option
@pass_settings
def stop(settings: Settings, pipeline: str, name: str | None, wait: float, as_json: bool) -> int:
    """Let a running stream end after its batch, wherever it runs.

    \b
    twice stream stop shop clicks --wait 60
    """
    wanted = find_pipeline(settings.config, pipeline).find_stream(name)
    ledger = settings.ledger()
    info = ledger.streams.find(wanted.pipeline, wanted.name)
    state = _state(ledger, info)[0] if info is not None else "never ran"
    if info is not None and state == "running":
        ledger.streams.ask_to_stop(wanted.pipeline, wanted.name)
        end = time.monotonic() + wait
        while state == "running" and time.monotonic() < end:
            time.sleep(_POLL)
            state = _state(ledger, info)[0]
        outcome = "asked to stop after its batch" if state == "running" else f"has ended: {state}"
    else:
        outcome = f"does not run: {state}"
    if as_json:
        print_json({"stream": wanted.full_name, "status": state})
    else:
        print_text(f"{wanted.full_name} {outcome}")
    return 1 if state == "running" and wait else 0


@stream.command(short_help="Publish past batches again.")
@click.argument("pipeline")
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--from", "from_", required=True, metavar="A", help="The first batch: its number, or the time it began.")
@click.option("--to", required=True, metavar="B", help="Where it ends: B itself is not replayed.")
@click.option("--dry-run", is_flag=True, help="Only list the batches; Spark is not started.")
@json_option
@pass_settings
def replay(
    settings: Settings, pipeline: str, name: str | None, from_: str, to: str, dry_run: bool, as_json: bool
) -> None:
    """Read batches again, with the events that they had, and publish what the current code makes of them.

    A and B are batch numbers, or times such as 2026-04-21 or 2026-04-21T10:00. The stream may run meanwhile.

    \b
    twice stream replay shop clicks --from 2026-04-21 --to 2026-04-22
    twice stream replay shop clicks --from 118 --to 131 --dry-run
    """
    found = find_pipeline(settings.config, pipeline)
    wanted = found.find_stream(name)
    batches = _range(settings.ledger(), found, wanted, from_, to)
    if dry_run:
        _list(batches, as_json=as_json)
        return
    with settings.runtime() as shop:
        from twice.streams.replay import replay as work

        def report(each: object) -> None:
            text = str(getattr(each, "text", each))
            if settings.json_logs:
                log_line({"message": text})
            elif settings.verbosity >= 0:
                click.echo(without_passwords(text), err=True)

        done = work(shop, found, wanted, settings.config.checkpoints, batches, command=settings.command, report=report)
    if as_json:
        print_json([each.to_json() for each in done])
    else:
        changed = sum(each.status == "published" for each in done)
        print_text(f"{len(done)} batches of {wanted.full_name} replayed, {changed} changed the table")


def _range(ledger: Ledger, pipeline: Pipeline, wanted: Stream, from_: str, to: str) -> list[BatchInfo]:
    """Read which batches are meant; the newest query's numbers, or the time at which a batch of any query began."""
    info = ledger.streams.find(wanted.pipeline, wanted.name)
    if info is None:
        raise UsageError(f"the stream {wanted.full_name} has never run", unchanged="nothing was changed")
    if from_.isdigit() != to.isdigit():
        raise UsageError(
            f"--from {from_} --to {to}: give two batch numbers, or two times", unchanged="nothing was changed"
        )
    if from_.isdigit():
        numbers = int(from_), int(to)
        found = ledger.streams.batches.list(wanted.pipeline, wanted.name, query=info.query, numbers=numbers)
    else:
        since, until = (_moment(pipeline, text) for text in (from_, to))
        found = ledger.streams.batches.list(wanted.pipeline, wanted.name, since=since, until=until)
    ended = [batch for batch in found if batch.ended_at is not None]
    if not ended:
        raise UsageError(
            f"no batch of the stream {wanted.full_name} from {from_} to {to} is in its table",
            unchanged="nothing was changed",
            next_step=f"twice stream status {wanted.pipeline} {wanted.name} --json lists the latest ones",
        )
    return sorted(ended, key=lambda batch: (batch.started_at, batch.batch))


def _moment(pipeline: Pipeline, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f"{text!r} is neither a batch number nor a time such as 2026-04-21T10:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=pipeline.zone)).astimezone(timezone.utc)


def _list(batches: Sequence[BatchInfo], *, as_json: bool) -> None:
    if as_json:
        print_json([batch.to_json() for batch in batches])
        return
    rows = [[each.batch, moment(each.started_at), each.rows_in, each.rows_out, each.duplicates, each.late,
             moment(each.replayed_at)] for each in batches]  # fmt: skip
    shown = [["" if cell is None else cell for cell in row] for row in rows]
    print_table(["batch", "began", "rows in", "rows out", "duplicate", "late", "replayed"], shown)


def _state(ledger: Ledger, info: StreamInfo) -> tuple[str, str]:
    try:
        run = ledger.runs.get(info.run)
    except UsageError:  # pruned
        return "ended", ""
    return ("stopped" if run.status == "done" else run.status), run.error


def _recent(ledger: Ledger, info: StreamInfo) -> list[BatchInfo]:
    return ledger.streams.batches.list(info.pipeline, info.stream, query=info.query, limit=_RECENT)


def _row(info: StreamInfo, state: str, recent: Sequence[BatchInfo]) -> list[object]:
    last = recent[0] if recent else None
    ended = [batch for batch in recent if batch.ended_at is not None]

    def total(name: str) -> int:
        return sum(getattr(batch, name) or 0 for batch in ended)

    seconds = sum((b.ended_at - b.started_at).total_seconds() for b in ended if b.ended_at is not None)
    rate = f"{total('rows_in') / seconds:,.0f}" if seconds else ""
    kept = next((batch.state_rows for batch in recent if batch.state_rows is not None), "")
    return [
        f"{info.pipeline}.{info.stream}", state, last.batch if last else "", moment(last.ended_at) if last else "",
        *(f"{total(name):,}" for name in ("rows_in", "rows_out", "duplicates", "late")), rate, kept,
    ]  # fmt: skip


@contextmanager
def _reporting(settings: Settings, *, as_json: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield the listener that suits standard error: JSON lines, a line redrawn on a terminal, else a line per batch."""
    if as_json:
        yield lambda progress: print_json(progress.to_json(), long=True)
        return
    if settings.json_logs:
        yield lambda progress: log_line({"message": progress.text, **progress.to_json()})
        return
    if settings.verbosity < 0:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield lambda progress: click.echo(progress.text, err=True)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting Spark") as line:

        def show(progress: Progress) -> None:
            line.update(progress.text)

        yield show
