"""The status of one or several pipelines, with the effects that need attention."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from twice.engine.status.judging import status
from twice.engine.status.peeked_state import NeedsSpark, PeekedState
from twice.engine.status.values import PipelineStatus, Status
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.config import Config
    from twice.engine.status.table_state import TableState
    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline


def collect(
    ledger: Ledger | None,
    pipelines: Sequence[Pipeline],
    from_: str | None = None,
    to: str | None = None,
    *,
    only_stale: bool = False,
    live: TableState | PeekedState | None = None,
) -> Status:
    """Return the status of several pipelines; with `live`, their tables and inputs are checked too.

    A project that never ran has no ledger.
    """
    ends = [bounds(pipeline, from_, to) for pipeline in pipelines]
    outputs = live.outputs if live else None
    found = []
    for pipeline, (start, end) in zip(pipelines, ends, strict=True):
        steps = status(ledger, pipeline, start, end, live=outputs, sources=live)
        effects = ledger.effects.list(pipeline=pipeline.name, attention=True) if ledger else []
        shown = (step.only_stale() if only_stale else step for step in steps)
        found.append(PipelineStatus(pipeline.name, tuple(shown), tuple(effects)))
    return Status(tuple(found))


def collect_without_spark(
    config: Config, ledger: Ledger | None, pipelines: Sequence[Pipeline], *ends: str | None, only_stale: bool = False
) -> Status | None:
    """Return the status, with tables and inputs checked; None where only Spark can check them."""
    state = PeekedState.of(config, (table for pipeline in pipelines for table in pipeline.tables()))
    try:
        return collect(ledger, pipelines, *ends, only_stale=only_stale, live=state) if state else None
    except NeedsSpark:
        return None


def bounds(pipeline: Pipeline, from_: str | None, to: str | None) -> tuple[datetime | None, datetime | None]:
    """Read the ends of a range, of which each may be open."""
    start = pipeline.grain.parse(from_, pipeline.zone) if from_ else None
    end = pipeline.grain.parse(to, pipeline.zone) if to else None
    if start and end and end <= start:
        raise UsageError(f"the range ends at {to}, which is not after its start, {from_}; the end is not part of it")
    return start, end
