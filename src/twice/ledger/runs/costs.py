"""What attempts cost, as they recorded it themselves, added up by the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from twice.ledger.attempts.infos import PART
from twice.ledger.db.schema import attempts, runs

MEASURES = ("executor_seconds", "cpu_seconds", "bytes_read", "bytes_written", "bytes_shuffled")
# JSON as the ledger writes it: within a string the quote after the name would be escaped.
_COST = r'"cost":(\{[^{}]*\})'
_IS_PART = f'"{PART}":'


@dataclass(frozen=True)
class Cost:
    """One line of the costs; `unmeasured` attempts used no Spark, or ended before they could report what they used."""

    name: str
    runs: int
    attempts: int
    unmeasured: int
    total: dict[str, float]

    def to_json(self) -> dict[str, object]:
        """Return the line as JSON values."""
        return {
            "name": self.name,
            "runs": self.runs,
            "attempts": self.attempts,
            "unmeasured": self.unmeasured,
            **{measure: round(value, 3) for measure, value in self.total.items()},
        }


def add_up(connection: sa.Connection, by: str, *, since: datetime | None, pipeline: str | None) -> list[Cost]:
    """Add up attempts by pipeline, by step, or by a tag of their run; the most expensive come first.

    The database adds up: one row for each line is read, however many attempts there are.
    """
    postgres = connection.dialect.name == "postgresql"
    cost = _cost_postgres if postgres else _cost_sqlite
    name = _name(by, postgres=postgres).label("name")
    measured = cost(MEASURES[0])
    for measure in MEASURES[1:]:
        measured = sa.func.coalesce(measured, cost(measure))
    query = (
        sa.select(
            name,
            sa.func.count(attempts.c.run.distinct()).label("runs"),
            sa.func.count().label("attempts"),
            sa.func.count(measured).label("measured"),
            *(sa.func.coalesce(sa.func.sum(cost(measure)), 0.0).label(measure) for measure in MEASURES),
        )
        .join(runs, runs.c.id == attempts.c.run)
        # What was refused inside an attempt cost nothing beside it.
        .where(~attempts.c.details.contains(_IS_PART, autoescape=True))
        .group_by(name)
    )
    if pipeline is not None:
        query = query.where(_own_name(postgres=postgres) == pipeline)
    if since is not None:
        query = query.where(attempts.c.started_at >= since)
    found = [_line(row, by) for row in connection.execute(query).all()]
    return sorted(found, key=lambda each: (-each.total["executor_seconds"], each.name))


def tags_of_runs(connection: sa.Connection) -> list[str]:
    """Name the tags that runs with an attempt have, in order."""
    if connection.dialect.name == "postgresql":
        name = sa.func.json_object_keys(sa.cast(runs.c.tags, sa.JSON)).label("key")
        query = sa.select(name).where(runs.c.id.in_(sa.select(attempts.c.run)))
    else:
        tags = sa.func.json_each(runs.c.tags).table_valued("key")
        query = (
            sa.select(tags.c.key)
            .select_from(runs.join(tags, sa.true()))
            .where(runs.c.id.in_(sa.select(attempts.c.run)))
        )
    return sorted(connection.scalars(query.distinct()))


def _line(row: Any, by: str) -> Cost:
    total = {measure: float(getattr(row, measure)) for measure in MEASURES}
    name = str(row.name) if row.name is not None else f"(no {by})"
    return Cost(name, row.runs, row.attempts, row.attempts - row.measured, total)


def _name(by: str, *, postgres: bool) -> sa.ColumnElement[str]:
    """Return what attempts are added up by; a run without the tag has a null."""
    if by == "pipeline":
        return _own_name(postgres=postgres)
    if by == "step":
        return _own_name(postgres=postgres) + "." + attempts.c.step
    if postgres:
        return sa.cast(runs.c.tags, sa.JSON).op("->>")(by)
    tags = sa.func.json_each(runs.c.tags).table_valued("key", "value")
    return sa.select(tags.c.value).where(tags.c.key == by).scalar_subquery()


def _own_name(*, postgres: bool) -> sa.ColumnElement[str]:
    """Return the pipeline's own name: work on its shadows goes by `name@backfill`."""
    name = attempts.c.pipeline
    return sa.func.split_part(name, "@", 1) if postgres else sa.func.substr(name, 1, sa.func.instr(name + "@", "@") - 1)


def _cost_sqlite(measure: str) -> sa.ColumnElement[float]:
    return sa.cast(sa.func.json_extract(attempts.c.details, f"$.cost.{measure}"), sa.Float)


def _cost_postgres(measure: str) -> sa.ColumnElement[float]:
    # Only the cost is parsed: other details may hold escapes that Postgres refuses to decode.
    found = sa.cast(sa.func.substring(attempts.c.details, _COST), sa.JSON)
    return sa.cast(found.op("->>")(measure), sa.Float)
