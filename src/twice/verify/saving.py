"""A failing case as a pytest file with its input rows: it fails like the check, and passes once the cause is fixed."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from twice.engine.spark.session import fresh
from twice.verify.literals import Literals, NoLiteral, Writer, ddl, write_copies
from twice.verify.report.texts import plain
from twice.verify.running import make
from twice.verify.shrinking import Shrunk, same, shrink
from twice.verify.stand_ins import StandIns

if TYPE_CHECKING:
    from twice.verify.trial import Check, Finding, Trial

# A case with more rows is not written: it would be too long to read.
_MOST_ROWS = 200


@dataclass(frozen=True)
class Saved:
    """The outcome of saving a finding: a file, or why there is none."""

    check: str
    step: str
    file: Path | None
    text: str

    def to_json(self) -> dict[str, object]:
        """Return it as JSON scalars."""
        return {
            "check": self.check,
            "step": self.step,
            "file": str(self.file) if self.file is not None else None,
            "text": self.text,
        }


def save_case(trial: Trial, check: Check, finding: Finding, folder: Path) -> Saved:
    """Shrink what a check found and write it as a test; nothing is written that would not fail."""
    if not finding.inputs:
        return Saved(check.name, finding.step, None, "its case is not one of input rows")
    if ":" not in trial.place:
        return Saved(check.name, finding.step, None, "a test cannot import a pipeline without a module")
    shrunk = shrink(trial, check, finding)
    if shrunk.rows > _MOST_ROWS:
        return Saved(check.name, finding.step, None, f"the smallest case has {shrunk.text}, too many for a test")
    try:
        case = _Case.of(shrunk)
    except NoLiteral as problem:
        return Saved(check.name, finding.step, None, str(problem))
    if not _still_fails(check, shrunk, case):
        why = " with stand-ins for personal values" if case.personal else ""
        return Saved(check.name, finding.step, None, f"the check does not fail on the rows as literals{why}")
    file = _write(folder, f"test_verify_{_word(trial.pipeline.name)}_{_word(check.name)}", _source(shrunk, check, case))
    return Saved(check.name, finding.step, file, shrunk.text)


@dataclass
class _Case:
    """The rows of a case: as values, and as source."""

    tables: dict[str, Literals] = field(default_factory=dict)
    source: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    personal: list[str] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, shrunk: Shrunk) -> _Case:
        trial = shrunk.trial
        session = fresh(trial.sandbox.spark, trial.pipeline.zone.key)
        tables = {name: session.read.parquet(place) for name, place in trial.inputs.folders.items()}
        rows = {name: [tuple(row) for row in table.collect()] for name, table in tables.items()}
        schemas = {name: table.schema for name, table in tables.items()}
        found, writer = cls(), Writer()
        stand_ins = StandIns(_personal(trial))
        for name, schema in schemas.items():
            stand_ins.learn(rows[name], schema)
        for name, schema in schemas.items():
            shown = [stand_ins.row(row, schema) for row in rows[name]]
            written = sorted(((writer.literal(row, schema), row) for row in shown), key=lambda pair: pair[0])
            found.tables[name] = (ddl(schema), [row for _, row in written])
            found.source[name] = (ddl(schema), [text for text, _ in written])
        found.personal = sorted(stand_ins.columns)
        found.uses = writer.uses
        return found


def _personal(trial: Trial) -> frozenset[str]:
    """Return the columns that any table of the pipeline declares as personal, also for its copies under other names."""
    steps = trial.pipeline.steps.values()
    tables = [table for step in steps for table in (step.writes, *(each.table for each in step.reads.values()))]
    return frozenset(column.lower() for table in tables for column in table.personal)


def _still_fails(check: Check, shrunk: Shrunk, case: _Case) -> bool:
    """Run the check on the rows as the file has them."""
    trial = shrunk.trial
    folder = Path(tempfile.mkdtemp(prefix="saved-", dir=trial.sandbox.folder))
    inputs = write_copies(fresh(trial.sandbox.spark, trial.pipeline.zone.key), folder, case.tables)
    found = make(check, replace(trial, inputs=inputs))
    return any(same(shrunk.finding, each) for each in found.findings)


def _source(shrunk: Shrunk, check: Check, case: _Case) -> str:
    trial = shrunk.trial
    module, _, name = trial.place.partition(":")
    steps = [step.name for step in trial.steps]
    unit = trial.pipeline.grain.label(trial.unit.start, trial.pipeline.zone)
    lines = [
        f'"""{check.name} fails on these rows, as `twice verify` found; the test passes once the cause is fixed."""',
        "",
        f"# {shrunk.text}.",
        _comment(f"The promise: {check.promise}."),
        _comment(f"What was found: {shrunk.finding.step}: {shrunk.finding.what}."),
        _comment(f"On all rows: {shrunk.finding.repeat}"),
    ]
    if case.personal:
        hidden = f"Values of {', '.join(case.personal)} are personal: these are stand-ins, equal where the values were."
        lines.append(_comment(hidden))
    lines.append("")
    moments = sorted(case.uses & {"date", "datetime", "timedelta", "timezone"}, key=str.lower)
    lines += [f"from datetime import {', '.join(moments)}"] if moments else []
    lines += ["from decimal import Decimal"] if "Decimal" in case.uses else []
    lines += ["", f"from {module} import {name} as pipeline", "from twice.testing import check", "", "INPUTS = {"]
    for table, (columns, rows) in case.source.items():
        lines += [f"    {table!r}: (", f"        {columns!r},", "        ["]
        lines += [f"            {row}," for row in rows]
        lines += ["        ],", "    ),"]
    lines += [
        "}",
        "",
        "",
        f"def test_{_word(check.name)}() -> None:",
        "    check(",
        f"        pipeline, {unit!r}, {check.name!r}, steps={steps!r}, inputs=INPUTS, seed={trial.seed},",
        "        raise_on_failure=True,",
        "    )",
        "",
    ]
    return "\n".join(lines)


def _comment(text: str) -> str:
    return f"# {' '.join(plain(text).split())}"


def _write(folder: Path, name: str, text: str) -> Path:
    """Write a new file; one that exists is never overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        file = folder / f"{name}{'' if number == 1 else f'_{number}'}.py"
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except FileExistsError:
            number += 1
        else:
            return file


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text)
