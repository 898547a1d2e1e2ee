"""What a write pattern means by *stage* and *gate*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.engine.attempt import merging, replacing
from twice.model.patterns import InsertOnly, Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.gating import Verdict
    from twice.engine.attempt.stage_result import StageResult
    from twice.engine.attempt.task import Task
    from twice.model.tables import Table
    from twice.store.protocol import StagedRows


@dataclass(frozen=True)
class Strategy:
    """How the rows of a step are staged, and how what the table will hold is judged."""

    stage: Callable[[Task, StagedRows, Iterator[DataFrame]], StageResult]
    gate: Callable[[Task, StageResult], Verdict]


REPLACE = Strategy(replacing.stage, replacing.gate)
BY_KEY = Strategy(merging.stage, merging.gate)


def strategy_of(table: Table) -> Strategy:
    """Return the strategy of a table's write pattern."""
    return BY_KEY if isinstance(table.write, Merge | InsertOnly) else REPLACE
