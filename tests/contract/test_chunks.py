"""Many partitions in one job, on every store: what passes is published, what does not is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from twice import Day, Overwrite, Pipeline, Window, gates
from twice.engine.chunks.options import ChunkOptions
from twice.engine.chunks.separability import separability
from twice.engine.plan import plan
from twice.engine.run import run_planned_step
from twice.model.scopes import Scope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import StepResult

# On Iceberg in `make test`: what a store does for a chunk, `test_verbs` asks of every store.
pytestmark = pytest.mark.spark

SOURCE = "id bigint, n int, price decimal(12,2), word string, moment timestamp, d date"
ROWS = """
    ({id}, {n}, 9.95, 'it''s', timestamp'2026-03-29 01:30:00', date'2026-04-{day}'),
    ({id}1, 0, null, null, null, date'2026-04-{day}')
"""


def test_a_chunk_publishes_the_partitions_that_pass_in_one_version_and_leaves_nothing_over(tables):
    # Given three days of a source, the second of them with a bad row, and a step that keeps days apart
    lab = tables.lab
    values = ", ".join(ROWS.format(id=number, n=n, day=day) for number, n, day in ((1, 5, 20), (2, -1, 21), (3, 7, 22)))
    source = lab.source("raw", SOURCE, f"values {values}")
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite(), gates=[gates.range("n", min=0)])
    pipeline = Pipeline("contract", grain=Day)

    @pipeline.step(reads={"raw": source}, writes=table)
    def fed(raw: DataFrame) -> DataFrame:
        return raw

    window = Window(Day.parse("2026-04-20", pipeline.zone), Day.parse("2026-04-23", pipeline.zone))
    (staged,) = plan(pipeline, window)

    def chunk(check_alone: Scope | None = None) -> StepResult:
        assert separability(lab.runtime, pipeline, staged).ok
        run = lab.ledger.runs.start(pipeline.name, staged.scope)
        options = ChunkOptions(partial=True, check_alone=check_alone)
        return run_planned_step(lab.runtime, pipeline, staged, run, skip_fresh=False, wait=0.0, chunk=options)

    # When they are one chunk, one day of which is computed alone and compared
    done = chunk(Scope(staged.target.partitions[0].window))
    # Then the good days are there, as they are stored they compare equal, and the bad one is named
    assert (done.status, list(done.refused)) == ("published", ["2026-04-21"])
    assert sorted(row[0] for row in tables.rows("id")) == [1, 3, 11, 31]
    before = tables.picture("t")
    # And once more: nothing moves
    again = chunk()
    assert (again.status, list(again.refused), again.digest) == ("unchanged", ["2026-04-21"], done.digest)
    assert tables.picture("t") == before
