"""A baseline: the findings of today, so that from now on only new ones are told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.audit.findings import Finding
from twice.errors import UsageError

_VERSION = 1
Mark = tuple[str, str, str]


def _mark(finding: Finding) -> Mark:
    """What stays the same when lines move: the file, the code, and the text of the line."""
    return finding.path, finding.code, " ".join(finding.source.split())


@dataclass(frozen=True)
class Compared:
    """Findings beside a baseline."""

    new: list[Finding]
    known: int
    gone: int  # entries that nothing matches any more


def write(file: Path, findings: Iterable[Finding]) -> int:
    """Write the baseline and return how many findings are in it."""
    counts = Counter(_mark(one) for one in findings)
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


def compare(file: Path, findings: Iterable[Finding]) -> Compared:
    """Take out what the baseline knows."""
    left = _read(file)
    new: list[Finding] = []
    known = 0
    for one in findings:
        mark = _mark(one)
        if left[mark] > 0:
            left[mark] -= 1
            known += 1
        else:
            new.append(one)
    return Compared(new, known, sum(count for count in left.values() if count > 0))


def _read(file: Path) -> Counter[Mark]:
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        entries = data["findings"]
        if data["version"] != _VERSION:
            raise UsageError(
                f"the baseline {file} is of version {data['version']}, this twice reads {_VERSION}",
                to_go_on=f"twice audit … --write-baseline {file}",
            )
        return Counter({(entry["path"], entry["code"], entry["line"]): int(entry["count"]) for entry in entries})
    except FileNotFoundError:
        raise UsageError(f"there is no baseline {file}", to_go_on=f"twice audit … --write-baseline {file}") from None
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is no baseline of twice audit: {error}") from None
