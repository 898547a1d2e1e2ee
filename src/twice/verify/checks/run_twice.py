"""`run-twice`: a second run changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twice.engine.notebooks import plural
from twice.verify.trial import Seen, Why

if TYPE_CHECKING:
    from twice.verify.trial import Trial


class RunTwice:
    """Run the same unit a second time: the same rows, and no new version.

    A step that builds on what it wrote before, or whose rows are made from the moment of the run, fails.
    """

    name = "run-twice"
    promise = "a unit that is run twice has the same rows, and no new version"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit a second time and compare."""
        first = trial.clean.versions()
        case, same = trial.run_on_clean(trial.unit)
        seen = f"{plural(len(trial.compared), 'table')}, run twice: same rows, no new version"
        if same and trial.compared:
            return Seen(seen)
        names = ("after one run", "after the second run")
        why = Why(cause="", fix="replace the unit's own rows: write=Overwrite() or Merge(version=…), from inputs alone")
        findings = trial.differences(self, case, names=names, why=why)
        second = case.versions()
        for step in trial.compared:
            table = step.writes.name
            if first[table] != second[table] and not findings:
                findings.append(
                    trial.finding(
                        self,
                        step,
                        f"the second run committed the same rows as a new version, {second[table]}",
                        cause="its rows are equal but are not recognized as such",
                        fix="report it with `twice show` of the second run: an unchanged unit must not be published",
                    )
                )
        return Seen(seen, findings)
