"""`late`: rows that arrive after a unit was published are in it after the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import column
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.model.tables import Table
    from twice.verify.trial import Trial


class Late:
    """Publish a unit before its late rows have arrived, then with them.

    It applies to steps that declare `lateness=` and read a table whose rows happen in one unit and arrive in another.
    """

    name = "late"
    promise = "a row that comes late is in its unit after the next run of it"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Hold late rows back, publish, deliver them, publish again."""
        late: dict[str, Table] = {}
        for step in trial.steps:
            for read in step.reads.values():
                table = read.table
                apart = table.partition is not None and table.event_time not in (None, table.partition.column)
                if read.mode == "window" and step.writes.lateness and apart and table.name in trial.inputs.folders:
                    late[table.name] = table
        if not late:
            raise NotRun("no step declares lateness= for an input whose rows arrive later than they happen")

        def on_time(table: Table) -> dict[str, str]:
            assert table.partition is not None  # noqa: S101 - chosen above
            arrival = column(table.partition.column)
            end = F.lit(trial.unit.end).cast("timestamp" if table.partition.grain.sub_day else "date")

            def arrived(rows: DataFrame) -> DataFrame:
                return rows.where(arrival < end)

            return {table.name: trial.variant("on-time", table.name, arrived)}

        held_back = {name: folder for table in late.values() for name, folder in on_time(table).items()}
        case = trial.case(held_back)
        case.run(trial.before, trial.unit)
        early = case.picture()
        case.read_from(trial.inputs.folders)
        case.run(trial.before, trial.unit)
        why = Why(
            what="rows that arrived after the first run are not in their unit after the second",
            cause="the step cuts its input by arrival, or keeps what it made first",
            fix="read with event_time= and lateness=, and replace the unit: write=Overwrite()",
        )
        # Here, what is computed from the current state of another step's table is computed after both units.
        steps = trial.untouched_by(lambda step: trial.reads_made(step, lambda read: read.mode == "latest"))
        names = ("all rows on time", "some rows late")
        findings = trial.differences(self, case, names=names, why=why, steps=steps)
        moved = [name for name, digest in early.items() if digest != trial.expected[name]]
        if not moved and not findings:
            raise NotRun(f"no row of {', '.join(late)} arrived later than the unit that it belongs to")
        return Seen(f"late rows moved {', '.join(moved)}, and the next run took them in", findings)
