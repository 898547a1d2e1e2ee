"""How errors are reported: what happened, what is unchanged, what to run next; a traceback only with -v."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import click

from twice.cli.logs import log_line, without_passwords

if TYPE_CHECKING:
    from twice.cli.settings import Settings
    from twice.errors import TwiceError


def report_error(settings: Settings, error: TwiceError, *, more: str = "") -> int:
    """Report an error on standard error and return its exit code."""
    if settings.verbosity > 0:
        _traceback(error)
    if settings.json_logs:
        fields = {
            "level": "error",
            "error": type(error).__name__,
            "message": error.message,
            "unchanged": error.unchanged,
        }
        log_line(fields | {"next_step": more or error.next_step, "exit_code": error.exit_code})
    else:
        text = str(error) + (f"\n{more}" if more else "")
        click.echo(without_passwords(f"error: {text}"), err=True)
    return error.exit_code


def report_surprise(settings: Settings, error: Exception) -> int:
    """Report an unexpected error."""
    if settings.verbosity > 0:
        _traceback(error)
    first = (str(error).splitlines() or [""])[0]
    message = f"an unexpected error occurred in twice itself: {type(error).__name__}: {first}"
    hint = "please report it in the issue tracker of twice, with what the same command prints with -v"
    if settings.json_logs:
        log_line(
            {"level": "error", "error": type(error).__name__, "message": message, "next_step": hint, "exit_code": 3}
        )
    else:
        click.echo(without_passwords(f"error: {message}\n  next: {hint}"), err=True)
    return 3


def _traceback(error: BaseException) -> None:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    click.echo(without_passwords("".join(lines).rstrip()), err=True)
