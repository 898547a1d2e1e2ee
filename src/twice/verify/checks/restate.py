"""`restate`: a unit whose input changes is replaced, and changes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import row_hashes
from twice.engine.notebooks import plural
from twice.errors import GateFailed
from twice.verify.trial import Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.verify.trial import Trial

_SHARE = 3


class Restate:
    """Take a third of the rows out of the inputs of a published unit, run it, put them back, run it again.

    In between, the unit equals a clean run on the smaller input; at the end it equals the first run. A write that only
    adds or updates keeps rows that no input has any more. Rows of `Merge` and `InsertOnly` tables stay by design: they
    are compared at the end only.
    """

    name = "restate"
    promise = "a restated unit has the rows of its restated input, and no others"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Restate a unit, and take it back."""

        def fewer(rows: DataFrame) -> DataFrame:
            return rows.where(F.pmod(F.xxhash64(F.lit(trial.seed), *row_hashes(rows.schema)), F.lit(_SHARE)) != 0)

        smaller = {**trial.inputs.folders, **trial.variants(f"fewer-{trial.seed}", fewer, trial.windowed)}
        case, clean = trial.case(), trial.case()
        case.run(trial.before, trial.unit)
        clean.run(trial.before)
        findings, refused = [], ""
        for each in (case, clean):
            each.read_from(smaller)
        result = case.try_run(trial.unit)
        if isinstance(result.error, GateFailed):
            refused = f"; the smaller input was refused: {result.error.message.splitlines()[0]}"
        elif result.error is not None:
            raise result.error
        else:
            clean.run(trial.unit)
            why = Why(
                what="after its input became smaller, the unit is not what a clean run makes of it",
                cause="the write keeps rows that it should replace, or the step builds on its own output",
                fix="replace the whole unit: write=Overwrite()",
            )
            names = ("in a clean run", "restated")
            findings += trial.differences(self, case, against=clean, names=names, why=why, steps=trial.replacing)
        case.read_from(trial.inputs.folders)
        case.run(trial.unit)
        why = Why(
            what="after its input changed and changed back, the unit is not what it was",
            cause="the step builds on what it wrote before, or a merge has no version that decides",
            fix="compute from the inputs alone; merge by a version of the source: Merge(version=…)",
        )
        known = {finding.step for finding in findings}
        more = trial.differences(self, case, names=("at first", "changed back"), why=why)
        findings += [finding for finding in more if finding.step not in known]
        return Seen(f"{plural(len(trial.compared), 'table')}: rows follow the input there and back{refused}", findings)
