"""`twice`: the global options, the commands, and how every command ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from twice import __version__
from twice.cli.lazy import LazyGroup
from twice.cli.problems import report_error, report_surprise
from twice.cli.settings import Settings
from twice.errors import Interrupted, TwiceError

COMMANDS = {
    "init": "twice.cli.init:init",
    "run": "twice.cli.run:run",
    "backfill": "twice.cli.backfill:backfill",
    "status": "twice.cli.status:status",
    "effects": "twice.cli.effects:effects",
    "outbox": "twice.cli.outbox:outbox",
    "stream": "twice.cli.stream:stream",
    "accept": "twice.cli.accept:accept",
    "runs": "twice.cli.runs:runs",
    "show": "twice.cli.runs:show",
    "replay": "twice.cli.replay:replay",
    "cost": "twice.cli.cost:cost",
    "contract": "twice.cli.contract:contract",
    "verify": "twice.cli.verify:verify",
    "maintain": "twice.cli.maintain:maintain",
    "undo": "twice.cli.undo:undo",
    "rebuild": "twice.cli.rebuild:rebuild",
    "audit": "twice.cli.audit:audit",
    "rule": "twice.cli.rule:rule",
    "leases": "twice.cli.leases:leases",
    "ledger": "twice.cli.ledger:ledger",
    "doctor": "twice.cli.doctor:doctor",
}

# Set once SIGTERM came: it often reaches Spark's JVM too, and an error after that is its consequence.
_terminated = threading.Event()


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The configuration; without it, twice.toml or [tool.twice] of pyproject.toml, here or in a folder above.",
)
@click.option("--profile", metavar="NAME", help="A profile of the configuration; also TWICE_PROFILE.")
@click.option("-v", "--verbose", count=True, help="Print more; errors include their traceback.")
@click.option("-q", "--quiet", is_flag=True, help="Print only results and errors.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of progress and errors, which go to standard error.",
)
@click.version_option(__version__, prog_name="twice")
@click.pass_context
def cli(
    context: click.Context,
    config_file: Path | None,
    profile: str | None,
    verbose: int,
    quiet: bool,
    log_format: str,
) -> None:
    """Spark pipelines that are safe to run twice.

    \b
    Start a project:        twice init shop && cd shop
    Run a day, and again:   twice run sales --for 2026-04-25
    What would happen:      twice run sales --for 2026-04-25 --explain
    What is done or stale:  twice status
    Rebuild a quarter:      twice backfill sales --from 2026-01-01 --to 2026-04-01
    Prove that it is safe:  twice verify sales --for 2026-04-25
    Audit existing jobs:    twice audit jobs/
    Diagnose a problem:     twice doctor

    Exit codes: 0 done; 1 a check found something; 2 usage; 3 permanent failure; 4 the scope is
    held by another run; 75 transient failure, the same command may succeed later; 130 interrupted.
    """
    settings = context.obj
    assert isinstance(settings, Settings)  # noqa: S101 - made by run_command
    settings.config_file = config_file
    settings.profile = profile
    settings.verbosity = -1 if quiet else verbose
    settings.log_format = log_format
    settings.set_up_logging()


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing is raised."""
    settings = Settings(arguments=list(arguments))
    try:
        code = cli.main(list(arguments), prog_name="twice", standalone_mode=False, obj=settings)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return report_error(settings, _interrupted())
    except TwiceError as error:
        return report_error(settings, error)
    except BrokenPipeError:
        # The reader of our output is gone (`twice runs | head`), so no error is reported.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence instead of a traceback
        return report_surprise(settings, error) if not _terminated.is_set() else report_error(settings, _interrupted())


def main() -> NoReturn:
    """Run the command line of this process."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run_command(sys.argv[1:]))


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM, which every orchestrator sends, like Ctrl-C."""
    _terminated.set()
    raise KeyboardInterrupt


def _interrupted() -> Interrupted:
    return Interrupted("interrupted", unchanged="no table is left half written", next_step="run the same command again")
