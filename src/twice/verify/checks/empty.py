"""`empty`: a unit without input leaves nothing of what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.errors import GateFailed
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.errors import TwiceError
    from twice.verify.cases import Case, Picture
    from twice.verify.trial import Finding, Trial


class Empty:
    """Take all rows out of the inputs of a unit that was published, and run it again, step by step.

    Either a gate refuses the empty unit and the last good version stays, or the unit holds what a first run on empty
    inputs makes. Rows that stay behind, and steps that cannot handle an empty input, are found. Steps that read what
    was refused are not run.
    """

    name = "empty"
    promise = "a unit whose input is empty is empty, or refused by a gate"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Publish a unit, empty its inputs, publish it again; compare with a unit that was never full."""

        def nothing(rows: DataFrame) -> DataFrame:
            return rows.where(F.lit(False))

        empty = {**trial.inputs.folders, **trial.variants("empty", nothing, trial.windowed)}
        was_full, never_full = trial.case(), trial.case()
        was_full.run(*([trial.before] if trial.looks_back else []), trial.unit)
        if trial.looks_back:
            never_full.run(trial.before)
        full = was_full.picture()
        refused: dict[str, TwiceError] = {}
        for case in (was_full, never_full):
            case.read_from(empty)
            refused |= trial.run_each(case, trial.unit)
        by_gate = {name: error for name, error in refused.items() if isinstance(error, GateFailed)}
        findings = [self._fails(trial, name, error) for name, error in refused.items() if name not in by_gate]
        findings += self._left_behind(trial, was_full, never_full, full, refused)
        refusals = [f"{name} refused: {error.message.splitlines()[0]}" for name, error in by_gate.items()]
        behind = [step.name for step in trial.behind(refused)]
        if behind:
            refusals.append(f"not run behind it: {', '.join(behind)}")
        count = len(trial.steps) - len(refused) - len(behind)
        return Seen(
            "; ".join([*([f"{count} steps leave nothing of the emptied unit"] if count else []), *refusals]), findings
        )

    def _left_behind(
        self, trial: Trial, was_full: Case, never_full: Case, full: Picture, refused: dict[str, TwiceError]
    ) -> list[Finding]:
        """Compare what was published with a unit that was never full, and what was refused with what it was."""
        still = {*refused, *(step.name for step in trial.behind(refused))}
        published = [step for step in trial.replacing if step.name not in still]
        kept = [step for step in trial.compared if step.name in still]
        findings: list[Finding] = []
        if published:
            why = Why(
                what="rows of the unit stayed behind after its input became empty",
                cause="the write replaces only what it has new rows for",
                fix="replace the whole unit: write=Overwrite()",
            )
            names = ("never full", "emptied")
            findings += trial.differences(self, was_full, against=never_full, names=names, why=why, steps=published)
        moved = [step for step in kept if was_full.digest(name := step.writes.name) != full[name]]
        if moved:
            names, against = (
                ("before", "after an empty unit was refused"),
                trial.clean if trial.looks_back else trial.alone,
            )
            findings += trial.differences(self, was_full, against=against, names=names, steps=moved)
        if not published and not kept and not refused:
            raise NotRun("every table keeps merged or inserted rows by design")
        return findings

    def _fails(self, trial: Trial, name: str, error: TwiceError) -> Finding:
        return trial.finding(
            self,
            trial.pipeline.find(name),
            f"it fails on an empty input: {error.message.splitlines()[0]}",
            cause="the step reads a value out of its input, such as first()[0] or a division by a count",
            fix="return an empty DataFrame with the same columns",
            inputs=trial.inputs.folders,
        )
