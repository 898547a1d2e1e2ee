"""What is logged goes to standard error, as text or as one JSON object per line, without passwords."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timezone

import click


def without_passwords(text: str) -> str:
    """Hide passwords in what is shown."""
    from twice.redaction import redact

    return redact(text)


def log_line(fields: Mapping[str, object]) -> None:
    """Write one JSON object to standard error."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    text = json.dumps({"time": now, **fields}, ensure_ascii=False, default=str)
    click.echo(without_passwords(text), err=True)


class LogHandler(logging.Handler):
    """Writes log records through click, so that they go where all other output goes."""

    def __init__(self, *, json_lines: bool) -> None:
        super().__init__()
        self._json_lines = json_lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        level = record.levelname.lower()
        if self._json_lines:
            log_line({"level": level, "message": record.getMessage()})
        else:
            click.echo(without_passwords(f"{level}: {record.getMessage()}"), err=True)
