"""A baseline: today's findings, so that only new ones are reported from now on."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from twice.audit.findings import Finding
from twice.errors import UsageError

_VERSION = 1
Mark = tuple[str, str, str]


def _mark(finding: Finding, file: Path, files: Mapping[str, Path]) -> Mark:
    """What stays the same when lines move: the file, seen from the baseline's folder, the code, and the line's text."""
    path = os.path.relpath(os.path.realpath(files.get(finding.path, finding.path)), os.path.realpath(file.parent))
    return PurePath(path).as_posix(), finding.code, " ".join(finding.source.split())


def _by_mark(
    findings: Iterable[Finding], file: Path, files: Mapping[str, Path]
) -> dict[Mark, dict[int, list[Finding]]]:
    """Sort findings by mark and line: several of one code on a line count once, as they are one line to look at."""
    found: dict[Mark, dict[int, list[Finding]]] = {}
    for one in findings:
        found.setdefault(_mark(one, file, files), {}).setdefault(one.line, []).append(one)
    return found


@dataclass(frozen=True)
class Compared:
    """Findings beside a baseline."""

    new: list[Finding]
    known: int
    gone: int  # entries of audited or removed files that nothing matches any more


def write(file: Path, findings: Iterable[Finding], files: Mapping[str, Path]) -> int:
    """Write the baseline and return how many findings are in it; `files` are the audited ones by the path shown."""
    counts = {mark: len(lines) for mark, lines in _by_mark(findings, file, files).items()}
    entries = [
        {"path": path, "code": code, "line": line, "count": count}
        for (path, code, line), count in sorted(counts.items())
    ]
    text = json.dumps({"version": _VERSION, "findings": entries}, indent=1, ensure_ascii=False)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the baseline {file} cannot be written: {error.strerror}") from None
    return sum(counts.values())


def compare(file: Path, findings: Iterable[Finding], files: Mapping[str, Path]) -> Compared:
    """Take out what the baseline knows; what stood in a file that is gone may stand in another now."""
    left = _read(file)
    unknown: list[tuple[Mark, list[Finding]]] = []
    known = 0
    for mark, lines in _by_mark(findings, file, files).items():
        for on_line in lines.values():
            if left[mark] > 0:
                left[mark] -= 1
                known += len(on_line)
            else:
                unknown.append((mark, on_line))
    folder = file.parent
    lost = {path for path in {mark[0] for mark in left} if not (folder / path).exists()}
    moved = Counter[tuple[str, str]]()
    for (path, code, line), count in left.items():
        if path in lost:
            moved[code, line] += max(count, 0)
    new: list[Finding] = []
    for mark, on_line in unknown:
        if moved[mark[1:]] > 0:
            moved[mark[1:]] -= 1
            known += len(on_line)
        else:
            new.extend(on_line)
    audited = {os.path.relpath(os.path.realpath(one), os.path.realpath(folder)) for one in files.values()}
    gone = sum(count for (path, _, _), count in left.items() if count > 0 and path in audited)
    return Compared(sorted(new, key=Finding.sort_key), known, gone + moved.total())


def _read(file: Path) -> Counter[Mark]:
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        entries = data["findings"]
        if data["version"] != _VERSION:
            raise UsageError(
                f"the baseline {file} is of version {data['version']}, this twice reads {_VERSION}",
                next_step=f"twice audit … --write-baseline {file}",
            )
        return Counter({(entry["path"], entry["code"], entry["line"]): int(entry["count"]) for entry in entries})
    except FileNotFoundError:
        raise UsageError(f"there is no baseline {file}", next_step=f"twice audit … --write-baseline {file}") from None
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is not a baseline of twice audit: {error}") from None
