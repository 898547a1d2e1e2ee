"""`duplicates`: rows that are delivered twice count once, or are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.errors import GateFailed, KeyViolation, MergeRefused
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.verify.trial import Trial


class Duplicates:
    """Deliver every row of the inputs twice, where they declare a key that nothing enforces.

    Tables that a step or an extract of the pipeline writes have each key once: publishing refuses repeated ones. In an
    input without a key, repeats look like other rows.
    """

    name = "duplicates"
    promise = "a row that is delivered twice counts once, or the run is refused"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Double the rows of inputs that the pipeline does not write, and compare."""
        tables = {read.table.name: read.table for step in trial.steps for read in step.reads.values()}
        loose = [name for name in trial.inputs.folders if trial.pipeline.producer(tables[name]) is None]
        keyed = [name for name in loose if tables[name].key]
        if not keyed:
            without = f"{', '.join(loose)} declares no key" if loose else "every input has its key enforced by twice"
            raise NotRun(f"{without}, so that no row can be a repeat")

        def twice(rows: DataFrame) -> DataFrame:
            return rows.unionByName(rows)

        case = trial.case(trial.variants("twice", twice, keyed))
        refused = trial.run_each(case, trial.before, trial.unit)
        for error in refused.values():
            if not isinstance(error, KeyViolation | GateFailed | MergeRefused):
                raise error
        left_out = {*refused, *(step.name for step in trial.behind(refused))}
        steps = [step for step in trial.compared if step.name not in left_out]
        refusals = "".join(f"; {name} refused: {error.message.splitlines()[0]}" for name, error in refused.items())
        if not steps:
            return Seen(f"repeated rows are refused{refusals}")
        why = Why(
            what=f"its rows change when every row of {', '.join(keyed)} is delivered twice",
            cause="the step counts or adds up rows of a source that delivers at least once",
            fix="keep one row per key first, by a version that decides",
        )
        findings = trial.differences(self, case, names=("delivered once", "delivered twice"), why=why, steps=steps)
        return Seen(f"every row of {', '.join(keyed)} delivered twice: {len(steps)} same tables{refusals}", findings)
