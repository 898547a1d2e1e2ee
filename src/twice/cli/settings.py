"""The global options, and what commands open with them."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from twice.cli.logs import LogHandler
from twice.config import Config, load
from twice.errors import EnvironmentProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twice.engine.events import Listener
    from twice.engine.run import Runtime
    from twice.ledger import Ledger


@dataclass
class Settings:
    """The global options of one command line."""

    arguments: list[str] = field(default_factory=list)
    config_file: Path | None = None
    profile: str | None = None
    verbosity: int = 0
    log_format: str = "text"

    @cached_property
    def config(self) -> Config:
        """The configuration, read once."""
        return load(self.config_file, self.profile)

    @cached_property
    def command(self) -> str:
        """The command line as it is recorded: without the secrets of the configuration, and those named on it."""
        from twice.redaction import redacted_command

        return redacted_command(["twice", *self.arguments], self.secrets)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The passwords and keys of the configuration."""
        from twice.redaction import secrets_in

        named = [("", self.config.ledger), *self.config.spark.items()]
        return secrets_in([*named, *(item for store in self.config.stores.values() for item in store.options.items())])

    @property
    def json_logs(self) -> bool:
        """Whether progress and errors are JSON lines."""
        return self.log_format == "json"

    @property
    def global_arguments(self) -> list[str]:
        """The global options that a follow-up command needs too."""
        found = []
        if self.config_file:
            found += ["--config", str(self.config_file)]
        if self.profile:
            found += ["--profile", self.profile]
        return found

    def set_up_logging(self) -> None:
        """Send what `twice` logs to standard error."""
        log = logging.getLogger("twice")
        log.handlers[:] = [LogHandler(json_lines=self.json_logs)]
        levels = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
        log.setLevel(levels.get(self.verbosity, logging.DEBUG))

    def ledger(self) -> Ledger:
        """Open the ledger, which must exist."""
        from twice.ledger import open_ledger

        return open_ledger(self.config.ledger, create=False)

    def ledger_if_any(self) -> Ledger | None:
        """Open the ledger if there is one: a project that never ran has none, which is not an error."""
        from twice.ledger import find_ledger

        return find_ledger(self.config.ledger)

    @contextmanager
    def runtime(self, listener: Listener | None = None) -> Iterator[Runtime]:
        """Start Spark and open the ledger."""
        require_pyspark()
        from twice.api import runtime
        from twice.engine.events import ignore

        with runtime(self.config, listener=listener or ignore) as shop:
            yield shop


def require_pyspark() -> None:
    """Refuse a command that needs Spark if PySpark is not installed."""
    try:
        import pyspark  # noqa: F401 - only to see that it is installed
    except ImportError:
        raise EnvironmentProblem(
            "PySpark is not installed",
            unchanged="nothing was run",
            next_step="pip install 'twice[spark]', or run where Spark is installed",
        ) from None


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


pass_settings = click.make_pass_decorator(Settings)
