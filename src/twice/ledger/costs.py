"""What attempts cost, as they wrote it down themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from twice.ledger.book import Book
from twice.ledger.runs import PART
from twice.ledger.schema import attempts, runs


@dataclass(frozen=True)
class Spent:
    """What one attempt used, and whose it was; `cost` is empty where it started no Spark job, or could not tell."""

    run: str
    pipeline: str
    step: str
    tags: Mapping[str, str]
    cost: Mapping[str, float]


class Costs(Book):
    """The part of the ledger that can be asked what things cost."""

    def spent(self, *, since: timedelta | None = None, pipeline: str | None = None) -> list[Spent]:
        """List what attempts cost that began within the last time."""
        c = attempts.c
        query = sa.select(c.run, c.pipeline, c.step, runs.c.tags, c.details).join(runs, runs.c.id == c.run)
        if pipeline is not None:
            # What was made for a shadow goes by a name of its own.
            query = query.where(sa.or_(c.pipeline == pipeline, c.pipeline.startswith(f"{pipeline}@", autoescape=True)))
        with self._read() as connection:
            if since is not None:
                query = query.where(c.started_at >= self._now(connection) - since)
            rows = connection.execute(query.order_by(c.id)).all()
        read = ((*row[:3], json.loads(row.tags), json.loads(row.details)) for row in rows)
        # What was refused inside an attempt cost nothing beside it.
        return [
            Spent(run, name.partition("@")[0], step, tags, details.get("cost") or {})
            for run, name, step, tags, details in read
            if not details.get(PART)
        ]
