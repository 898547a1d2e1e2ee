"""Notebooks: `.ipynb` files, and notebooks exported as `.py`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable

from twice.audit.languages.building import JobBuilder
from twice.audit.languages.magics import SQL, plain, sql_call
from twice.audit.languages.python.broken import read_broken
from twice.audit.languages.python.reading import parse, run
from twice.audit.languages.sql.dialects import DIALECTS
from twice.audit.model import Job, Problem
from twice.audit.places import Place

_MAGIC = re.compile(r"^\s*(%%?|!)(\w*)(.*)$")


def cell_source(source: str) -> str:
    """Turn one cell into Python of the same lines."""
    lines = source.split("\n")
    if "%" not in source and "!" not in source and "?" not in source:
        return source
    first = next((line for line in lines if line.strip()), "")
    match = _MAGIC.match(first)
    if match and match[1] == "%%":
        if match[2] in SQL:
            position = lines.index(first)
            return "\n".join([*lines[:position], *sql_call(["", *lines[position + 1 :]])])
        if match[2] in {
            "bash",
            "sh",
            "html",
            "markdown",
            "javascript",
            "writefile",
            "latex",
            "script",
            "configure",
            "info",
            "help",
            "md",
            "R",
            "scala",
            "perl",
            "ruby",
            "svg",
        }:
            return "\n" * (len(lines) - 1)
        lines[lines.index(first)] = ""
        source = "\n".join(lines)
    if match and match[1] == "%" and match[2] == "sql":
        position = lines.index(first)
        return "\n".join([*lines[:position], *sql_call([match[3], *lines[position + 1 :]])])
    if match and match[1] == "%" and match[2] in {"md", "sh", "scala", "r", "fs", "run"}:
        return "\n" * (len(lines) - 1)
    return source if _is_python(source) else "\n".join(plain(line) for line in lines)


def _is_python(source: str) -> bool:
    """Return whether what looks like a magic command stands in a string."""
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def read_notebook(path: str, text: str, dialect: str, neighbour: Callable[[str], str | None]) -> Job:
    """Read an .ipynb file: its code cells as one script, with the lines of the JSON file."""
    job = Job(path, "notebook", text, dialect=DIALECTS.get(dialect, dialect))
    builder = JobBuilder(job)
    try:
        data = json.loads(text)
        cells = (
            data["cells"]
            if isinstance(data, dict) and "cells" in data
            else [cell for sheet in data.get("worksheets", []) for cell in sheet.get("cells", [])]
        )
        sources = [
            (
                str(cell.get("cell_type", "")),
                _joined(cell.get("source", cell.get("input", ""))),
                str(cell.get("metadata", {}).get("language", "")),
            )
            for cell in cells
            if isinstance(cell, dict)
        ]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        job.problems.append(Problem(f"cannot be read as a notebook: {type(error).__name__}", Place(1), whole_file=True))
        return job
    starts = _starts(text, [source for _, source, _ in sources])
    if "\n" not in text.strip():  # all on one line: the lines of the cells are counted instead
        starts = _counted([source if kind == "code" else "" for kind, source, _ in sources])
        text = job.text = "\n".join(source if kind == "code" else "" for kind, source, _ in sources)
    script: list[str] = []
    lines: list[int] = []
    for (kind, source, language), start in zip(sources, starts, strict=True):
        if kind != "code":
            continue
        converted = "\n".join(sql_call(["", *source.split("\n")])) if language == "sql" else cell_source(source)
        try:
            parse(converted)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = min((getattr(error, "lineno", None) or 1) - 1, source.count("\n"))
            job.problems.append(
                Problem(
                    f"a cell cannot be parsed as Python: {getattr(error, 'msg', None) or type(error).__name__}",
                    Place(start + max(0, line)),
                )
            )
            read_broken(builder, "\n" * (start - 1) + source)
            continue
        for offset, one in enumerate(converted.split("\n")):
            script.append(one)
            lines.append(start + min(offset, source.count("\n")))
    source_text = "\n".join(script)
    try:
        tree = parse(source_text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        job.problems.append(Problem(f"cannot be parsed as Python: {type(error).__name__}", Place(1), whole_file=True))
        return job
    _move(tree, lines)
    spread: list[str] = [""] * (max(lines, default=0) + 1)
    for number, one in zip(lines, script, strict=True):
        if 0 < number <= len(spread):
            spread[number - 1] = one
    run(builder, tree, "\n".join(spread), neighbour)
    return builder.finish()


def _counted(sources: list[str]) -> list[int]:
    """Return the line on which each cell starts when all cells are written below each other."""
    starts = [1]
    for source in sources[:-1]:
        starts.append(starts[-1] + source.count("\n") + 1)
    return starts[: len(sources)]


def _joined(source: object) -> str:
    return "".join(str(line) for line in source) if isinstance(source, list) else str(source)


def _starts(text: str, sources: list[str]) -> list[int]:
    """Find on which line of the JSON file each cell's source starts."""
    lines = text.split("\n")
    found: list[int] = []
    position = 0
    for source in sources:
        first = source.split("\n")[0]
        encoded = json.dumps(first, ensure_ascii=False)[1:-1]
        plain = json.dumps(first)[1:-1]
        at = (
            next(
                (
                    index
                    for index in range(position, len(lines))
                    if lines[index].lstrip().startswith((f'"{encoded}', f'"{plain}', '"source": "' + encoded[:40]))
                ),
                None,
            )
            if first
            else None
        )
        found.append((at if at is not None else position) + 1)
        position = at + 1 if at is not None else position
    return found


def _move(tree: ast.AST, lines: list[int]) -> None:
    """Give every node the line of the notebook file."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is not None and 0 < line <= len(lines):
            node.lineno = lines[line - 1]  # type: ignore[attr-defined]
            end = getattr(node, "end_lineno", None)
            if end is not None and 0 < end <= len(lines):
                node.end_lineno = lines[end - 1]  # type: ignore[attr-defined]
