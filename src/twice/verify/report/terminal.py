"""A report in lines of text: a table of checks, then each finding, from its promise to the command that repeats it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twice.verify.report.texts import plain

if TYPE_CHECKING:
    from twice.verify.evidence import Cell, Evidence
    from twice.verify.running import Report
    from twice.verify.trial import Finding

COLUMNS = ("check", "status", "what was seen", "seconds")
# More cells than that are in a file.
_SHOWN = 10


def table(report: Report) -> list[list[str]]:
    """Return one row for each check."""
    return [[each.check, each.status, plain(each.summary), f"{each.seconds:.1f}"] for each in report.outcomes]


def headline(report: Report) -> str:
    """Return in one line how the verification ended.

    >>> from twice.verify.running import Report
    >>> headline(Report("shop", "2026-04-25", 1))
    'shop 2026-04-25: 0 passed, 0 failed, 0 not run (seed 1, 0.0 s)'
    """
    count = Counter[str](each.status for each in report.outcomes)
    found = ", ".join(f"{count[status]} {status}" for status in ("passed", "failed", "not run"))
    return f"{report.pipeline} {report.unit}: {found} (seed {report.seed}, {report.seconds:.1f} s)"


def finding_lines(finding: Finding, rest: Path | None = None) -> Iterator[str]:
    """Yield one finding; `rest` is the file that holds what is too long for a terminal."""
    yield plain(f"{finding.check} failed: {finding.step} ({finding.table}): {finding.what}")
    yield plain(f"  promise: {finding.promise}")
    if finding.evidence is not None:
        yield from (plain(f"  {line}") for line in evidence_lines(finding.evidence, _SHOWN))
        if rest is not None:
            yield f"  more cells: {rest}"
    yield plain(f"  likely cause: {finding.cause}")
    yield plain(f"  fix: {finding.fix}")
    yield plain(f"  repeat: {finding.repeat}")


def evidence_lines(evidence: Evidence, most: int | None = None) -> Iterator[str]:
    """Yield evidence from the whole to the single cell: counts, match rates, changed cells side by side, rows."""
    yield evidence.text
    yield from evidence.shares()
    cells = evidence.cells if most is None else evidence.cells[:most]
    if cells:
        yield from (f"  {line}" for line in _side_by_side(cells, evidence))
        if len(cells) < len(evidence.cells):
            yield f"  … and {len(evidence.cells) - len(cells):,} more cells"
    yield from evidence.samples


def _side_by_side(cells: Sequence[Cell], evidence: Evidence) -> Iterator[str]:
    rows = [("row", "column", evidence.left, evidence.right, "difference")]
    rows += [(cell.row, cell.column, cell.left, cell.right, cell.kind) for cell in cells]
    # A line break in a value would break the table.
    flat = [[" ".join(text.split()) for text in row] for row in rows]
    widths = [max(len(row[index]) for row in flat) for index in range(len(flat[0]))]
    for row in flat:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def is_long(finding: Finding) -> bool:
    """Return whether a terminal shows only a part of the evidence."""
    return finding.evidence is not None and len(finding.evidence.cells) > _SHOWN


def write_rest(report: Report, folder: Path) -> list[tuple[Finding, Path | None]]:
    """Write evidence that is too long for a terminal into files; return each finding with its file, if it has one."""
    found: list[tuple[Finding, Path | None]] = []
    for number, finding in enumerate(report.findings, start=1):
        file = None
        if finding.evidence is not None and is_long(finding):
            name = re.sub(r"[^\w.-]+", "-", f"{report.pipeline}-{report.unit}-{finding.check}-{finding.step}")
            file = folder / f"{name}-{number}.txt"
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(_all(finding, finding.evidence), encoding="utf-8")
        found.append((finding, file))
    return found


def _all(finding: Finding, evidence: Evidence) -> str:
    lines = [f"{finding.check}: {finding.step} ({finding.table}): {finding.what}", *evidence_lines(evidence)]
    looked_at = len({cell.row for cell in evidence.cells})
    if looked_at < evidence.changed:
        lines.append(f"these are cells of {looked_at:,} of the {evidence.changed:,} rows that changed")
    return "".join(f"{plain(line)}\n" for line in lines)
