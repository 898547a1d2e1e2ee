"""Put repairs into files: only the repaired characters change, whatever the encoding and the ends of lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from twice.audit.files import encoding_of
from twice.audit.findings import Edit, Finding
from twice.errors import UsageError

_LINE_END = re.compile(r"\r\n|\r|\n")


def apply(file: Path, findings: Iterable[Finding], *, unsafe: bool) -> int:
    """Apply the repairs of a file's findings and return how many; overlapping ones wait for the next time."""
    chosen = [one.fix for one in findings if one.fix is not None and (one.fix.safe or unsafe)]
    taken: list[Edit] = []
    count = 0
    for fix in chosen:
        if all(not _overlap(edit, other) for edit in fix.edits for other in taken):
            taken.extend(fix.edits)
            count += 1
    if not count:
        return 0
    try:
        data = file.read_bytes()
        encoding = encoding_of(data)
        if encoding is None:
            return 0
        changed = _spliced(data.decode(encoding), taken).encode(encoding)
        file.write_bytes(changed)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    except UnicodeError as error:
        raise UsageError(f"{file} cannot be repaired: {error}", unchanged="the file is as it was") from None
    return count


def _overlap(one: Edit, other: Edit) -> bool:
    return not (
        (one.end_line, one.end_column) <= (other.line, other.column)
        or (other.end_line, other.end_column) <= (one.line, one.column)
    )


def _spliced(text: str, edits: Sequence[Edit]) -> str:
    mark = "\ufeff" if text.startswith("\ufeff") else ""  # no column counts it
    body = text[len(mark) :]
    starts = [0, *(match.end() for match in _LINE_END.finditer(body))]
    for edit in sorted(set(edits), reverse=True):
        first = starts[edit.line - 1] + edit.column - 1
        last = starts[edit.end_line - 1] + edit.end_column - 1
        body = body[:first] + edit.text + body[last:]
    return mark + body
