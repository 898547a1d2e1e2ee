"""Streams as the ledger shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class StreamInfo:
    """A stream as it ran last."""

    pipeline: str
    stream: str
    table: str
    source: str
    source_table: str
    query: str
    checkpoint: str
    run: str
    stop: bool
    changed_at: datetime

    def to_json(self) -> dict[str, object]:
        """Return the stream as JSON scalars."""
        return dict(self.__dict__) | {"changed_at": self.changed_at.isoformat()}
