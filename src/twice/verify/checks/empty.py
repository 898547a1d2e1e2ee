"""`empty`: a unit without input leaves nothing of what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.errors import GateFailed, StepFailed
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.verify.trial import Trial


class Empty:
    """Take all rows out of the inputs of a unit that was published, and run it again.

    Either a gate refuses the empty unit and the last good version stays, or the unit holds what a first run on empty
    inputs makes. Rows that stay behind, and steps that cannot handle an empty input, are found.
    """

    name = "empty"
    promise = "a unit whose input is empty is empty, or refused by a gate"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Publish a unit, empty its inputs, publish it again; compare with a unit that was never full."""
        windowed = {read.table.name for step in trial.steps for read in step.reads.values() if read.mode == "window"}
        cut = [name for name in trial.inputs.folders if name in windowed]
        if not cut:
            raise NotRun("no input is cut to the window")

        def nothing(rows: DataFrame) -> DataFrame:
            return rows.where(F.lit(False))

        empty = trial.variants("empty", nothing, cut)
        was_full, never_full = trial.case(), trial.case()
        was_full.run(trial.before, trial.unit)
        never_full.run(trial.before)
        for case in (was_full, never_full):
            case.read_from({**trial.inputs.folders, **empty})
        second = never_full.try_run(trial.unit)
        first = was_full.try_run(trial.unit)
        for error in (first.error, second.error):
            if isinstance(error, StepFailed):
                step = trial.pipeline.find(trial.steps[len(first.steps)].name)
                finding = trial.finding(
                    self,
                    step,
                    f"it fails on an empty input: {error.message.splitlines()[0]}",
                    cause="the step reads a value out of its input, such as first()[0] or a division by a count",
                    fix="return an empty DataFrame with the same columns",
                    inputs=was_full.folders,
                )
                return Seen("", [finding])
        if isinstance(first.error, GateFailed):
            findings = trial.differences(self, was_full, names=("before", "after an empty unit was refused"))
            return Seen(f"refused: {first.error.message.splitlines()[0]}", findings)
        for error in (first.error, second.error):
            if error is not None:
                raise error
        why = Why(
            what="rows of the unit stayed behind after its input became empty",
            cause="the write replaces only what it has new rows for",
            fix="replace the whole unit: write=Overwrite()",
        )
        findings = trial.differences(
            self,
            was_full,
            against=never_full,
            names=("never full", "emptied"),
            why=why,
            steps=trial.replacing,
        )
        return Seen(f"{len(trial.replacing)} tables hold nothing of the emptied unit", findings)
