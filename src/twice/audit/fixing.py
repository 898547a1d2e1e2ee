"""Repairs that are mechanical: what they are, and how they are applied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from twice.audit.expressions import bounds
from twice.audit.findings import Edit, Finding, Fix
from twice.audit.model import Job, Mode, Parameter, Write
from twice.errors import UsageError

_SQL_CLOCK = re.compile(r"\b(CURRENT_DATE(\s*\(\s*\))?|TODAY\s*\(\s*\))", re.IGNORECASE)
_PYTHON_CLOCK = re.compile(r"\b(F|f|functions)\.current_date\(\)|\b(datetime\.)?date\.today\(\)")
_CREATE = re.compile(r"\bCREATE\s+((?:EXTERNAL|TRANSIENT)\s+)?TABLE\s+(?!IF\b)", re.IGNORECASE)
_DROP = re.compile(r"\bDROP\s+TABLE\s+(?!IF\b)", re.IGNORECASE)


def propose(job: Job, finding: Finding) -> Finding:
    """Add the repair to a finding, if there is a mechanical one."""
    fix = finding.fix
    if fix is None and finding.code == "TW101":
        fix = _clock(job, finding)
    elif fix is None and finding.code in {"TW301", "TW303"}:
        fix = _append(job, finding)
    elif fix is None and finding.code == "TW314":
        fix = _create(job, finding)
    return replace(finding, fix=fix) if fix is not finding.fix else finding


def _on_line(job: Job, line: int, pattern: re.Pattern[str], text: str) -> Edit | None:
    """Return the edit for the only match on a line."""
    source = job.line(line)
    found = list(pattern.finditer(source))
    if len(found) != 1:
        return None
    return Edit(line, found[0].start() + 1, line, found[0].end() + 1, text)


def _clock(job: Job, finding: Finding) -> Fix | None:
    """The clock becomes the date that the file is already given."""
    dates = [one for one in job.parameters if one.is_date]
    uses = [use for use in job.used("clock") if use.place == finding.place]
    if not dates or not uses or len({one.name for one in dates}) > 2:
        return None
    chosen = dates[0]
    exact = all(use.context in {"filter", "predicate"} for use in uses) and len({one.name for one in dates}) == 1
    if job.language in {"sql", "dbt"}:
        edit = _on_line(job, finding.line, _SQL_CLOCK, _sql_date(chosen))
        direct = edit is not None and not re.match(
            r"\s*[-+]|\s*\)\s*[-+,]", job.line(finding.line)[edit.end_column - 1 :]
        )
    else:
        reachable = chosen.kind == "argument" and chosen.expression.startswith("args.")
        text = chosen.expression if reachable else chosen.name
        spark = _PYTHON_CLOCK.search(job.line(finding.line))
        wrapped = f"{spark[1]}.lit({text})" if spark and spark[1] else text
        edit = _on_line(job, finding.line, _PYTHON_CLOCK, wrapped)
        direct = (
            reachable
            and edit is not None
            and "timedelta" not in job.line(finding.line)
            and "date_sub" not in job.line(finding.line)
        )
    if edit is None:
        return None
    return Fix((edit,), f"use {chosen.name}, which the job is given, instead of the clock", safe=exact and direct)


def _sql_date(parameter: Parameter) -> str:
    text = parameter.expression
    return text if text.startswith("'") else f"CAST('{text}' AS DATE)"


def _written(job: Job, finding: Finding) -> Write | None:
    return next(
        (
            write
            for write in job.writes
            if write.place.line == finding.line and write.mode in {Mode.APPEND, Mode.OVERWRITE}
        ),
        None,
    )


def _append(job: Job, finding: Finding) -> Fix | None:
    """Append becomes an overwrite of the partitions that are written."""
    write = _written(job, finding)
    if write is None or job.language != "python" or write.via != "dataframe" or write.stream:
        return None
    columns = {column for column, _ in write.partition if column and "{" not in column}
    whole = bool(columns) and any(
        bound.column in columns
        and bound.op == "="
        and any(node.origins or node.kind in {"param", "python"} for node in bound.value.walk())
        for filter_ in write.filters()
        for bound in bounds(filter_)
    )
    if write.api == "writeTo.append":
        edit = _on_line(job, write.place.line, re.compile(r"\.append\(\)"), ".overwritePartitions()")
        return (
            Fix((edit,), "replace the partitions that are written instead of adding to them", safe=whole)
            if edit
            else None
        )
    if not columns:
        return None
    pattern = re.compile(r"""\.mode\(\s*["'](append|overwrite)["']\s*\)""")
    here = write.place.line
    first, last = (here, here) if pattern.search(job.line(here)) else _statement_lines(job, write)
    for number in range(first, last + 1):
        edit = _on_line(job, number, pattern, '.mode("overwrite").option("partitionOverwriteMode", "dynamic")')
        if edit is not None and "partitionoverwritemode" not in job.line(number).lower():
            return Fix((edit,), "replace the partitions that are written instead of adding to them", safe=whole)
    return None


def _statement_lines(job: Job, write: Write) -> tuple[int, int]:
    for first, last in _statements(job.text):
        if first <= write.place.line <= last:
            return first, last
    return write.place.line, write.place.last_line


@lru_cache(maxsize=1)
def _statements(text: str) -> tuple[tuple[int, int], ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Expr, ast.Assign))
    )


def _create(job: Job, finding: Finding) -> Fix | None:
    """CREATE TABLE becomes CREATE TABLE IF NOT EXISTS; a table made from a query is left to a human."""
    write = next(
        (one for one in job.writes if one.place.line == finding.line and one.mode in {Mode.CREATE, Mode.DROP}), None
    )
    if write is None or write.query is not None:
        return None
    source = job.line(finding.line)
    if write.mode is Mode.DROP:
        match = _DROP.search(source)
        text, says = "DROP TABLE IF EXISTS ", "do not fail where the table is gone already"
    else:
        match = _CREATE.search(source)
        text, says = (
            f"CREATE {match[1] or '' if match else ''}TABLE IF NOT EXISTS ",
            "do not fail where the table is there already",
        )
    if match is None:
        return None
    return Fix((Edit(finding.line, match.start() + 1, finding.line, match.end() + 1, text),), says, safe=True)


@dataclass(frozen=True)
class Fixed:
    """What was changed in one file."""

    path: Path
    fixes: int


def apply(file: Path, findings: Iterable[Finding], *, unsafe: bool) -> Fixed:
    """Apply the repairs of a file's findings, from the end to the start; overlapping ones wait for the next time."""
    data = file.read_bytes()
    text = data.decode("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8")
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    chosen = [one.fix for one in findings if one.fix is not None and (one.fix.safe or unsafe)]
    taken: list[Edit] = []
    count = 0
    for fix in chosen:
        if all(not _overlap(edit, other) for edit in fix.edits for other in taken):
            taken.extend(fix.edits)
            count += 1
    for edit in sorted(set(taken), reverse=True):
        _edit(lines, edit)
    if count:
        try:
            file.write_bytes(newline.join(lines).encode("utf-8"))
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    return Fixed(file, count)


def _overlap(one: Edit, other: Edit) -> bool:
    return not (
        (one.end_line, one.end_column) <= (other.line, other.column)
        or (other.end_line, other.end_column) <= (one.line, one.column)
    )


def _edit(lines: list[str], edit: Edit) -> None:
    before = lines[edit.line - 1][: edit.column - 1]
    after = lines[edit.end_line - 1][edit.end_column - 1 :]
    lines[edit.line - 1 : edit.end_line] = (before + edit.text + after).split("\n")


def fixable(findings: Sequence[Finding], *, unsafe: bool) -> int:
    """Count the findings that could be repaired."""
    return sum(one.fix is not None and (one.fix.safe or unsafe) for one in findings)
