"""`schema`: a column that an input gains changes no other column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.profile import profile
from twice.engine.notebooks import plural
from twice.errors import SchemaRefused
from twice.verify.evidence import compare
from twice.verify.suspects import cause_of
from twice.verify.trial import Seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.verify.trial import Trial

_ADDED = "twice_added_column"


class Schema:
    """Give every input one more column, and compare what the tables held before.

    A step may hand the column on, leave it out, or be refused because its table declares its columns. It may not give
    other values, as a `union` by position does.
    """

    name = "schema"
    promise = "a column that is added to an input changes no other column"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Add a column to the inputs, and run."""

        def wider(rows: DataFrame) -> DataFrame:
            return rows.select(F.lit("added").alias(_ADDED), *rows.columns)

        case = trial.case(trial.variants("wider", wider))
        refused = trial.run_each(case, trial.before, trial.unit)
        for error in refused.values():
            if not isinstance(error, SchemaRefused):
                raise error
        left_out = {*refused, *(step.name for step in trial.behind(refused))}
        refusals = "".join(f"; {name} refused: {error.message.splitlines()[0]}" for name, error in refused.items())
        findings, passed_on = [], []
        steps = [step for step in trial.compared if step.name not in left_out]
        for step in steps:
            table = step.writes
            wide, narrow = case.rows(table.name), trial.clean.rows(table.name)
            assert wide is not None and narrow is not None  # noqa: S101, PT018 - both runs have ended
            if _ADDED in wide.columns:
                passed_on.append(table.name)
                wide = wide.drop(_ADDED)
            if _content(wide) == _content(narrow):
                continue
            names = ("before", "with one more column")
            evidence = compare(narrow, wide, key=table.key, personal=table.personal, names=names)
            findings.append(
                trial.finding(
                    self,
                    step,
                    "its rows change when its input gains a column",
                    cause=f"columns are taken by position, as union() does; {cause_of(step, None)}",
                    fix="take columns by name: unionByName, select",
                    evidence=evidence,
                    inputs=case.folders,
                )
            )
        on = f"; handed on by {', '.join(passed_on)}" if passed_on else ""
        return Seen(f"{plural(len(steps), 'table')}: values stay as they were{on}{refusals}", findings)


def _content(rows: DataFrame) -> object:
    return {place: each.digest for place, each in profile(rows, partition=(), key=()).items()}
