"""`# twice: ok TW101 because …`: what a person reviewed and accepted, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.comments import Layout, Span, layout
from twice.audit.places import Place

_MARK = re.compile(r"(?P<sign>#|--|//|/\*|\{#)\s*twice:\s*ok\b(?P<rest>.*)", re.IGNORECASE)
_CODE = re.compile(r"\bTW\d*\w*\b", re.IGNORECASE)
_REASON = re.compile(r"\bbecause\b\s*[:,-]?\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Suppression:
    """One comment: which codes, why, and which lines it speaks for.

    It speaks for the line that it stands on or above; if nothing is found there, for the statement around that.
    """

    codes: tuple[str, ...]
    reason: str
    place: Place
    first: int
    last: int
    statement: Span

    def covers(self, code: str, place: Place, *, wide: bool = False) -> bool:
        """Return whether it speaks for a finding; without a reason it speaks for none."""
        if not self.reason or code not in self.codes:
            return False
        if wide:
            return self.statement[0] <= place.line <= self.statement[1]
        return self.first <= place.line <= self.last or place.line <= self.place.line <= place.last_line


def find(path: str, text: str) -> list[Suppression]:
    """Return the suppressions of a file.

    >>> find("a.sql", "INSERT INTO t SELECT 1 -- twice: ok TW301 because the log only grows")[0].reason
    'the log only grows'
    """
    if "twice:" not in text.lower():
        return []
    return list(_all(text.split("\n"), layout(path, text)))


def _all(lines: list[str], where: Layout) -> Iterator[Suppression]:
    for number, line in enumerate(lines, start=1):
        match = _MARK.search(line)
        if not match or not where.is_comment(line, number, match.start(), match["sign"]):
            continue
        rest = re.sub(r"(\*/|#\}|\\n\",?|\",?)\s*$", "", match["rest"]).strip()
        reason = _REASON.search(rest)
        before = rest[: reason.start()] if reason else rest
        codes = tuple(dict.fromkeys(code.upper() for code in _CODE.findall(before)))
        alone = not _bare(line[: match.start()])
        speaks_for = _next_line(lines, number) if alone else number
        statement = where.statement(speaks_for)
        # Above a statement it speaks for all of it.
        last = statement[1] if alone and statement[0] == speaks_for else speaks_for
        why = reason[1].strip() if reason else ""
        place = Place(number, match.start() + 1)
        yield Suppression(codes, why if re.search(r"\w", why) else "", place, number, last, statement)


def _next_line(lines: list[str], number: int) -> int:
    """Return the first line below a comment that is not a comment."""
    for below in range(number + 1, min(len(lines), number + 20) + 1):
        text = _bare(lines[below - 1])
        if text and not text.startswith(("#", "--", "//")):
            return below
    return number


def _bare(line: str) -> str:
    """Return a line without what notebooks put around it."""
    return line.removeprefix("# MAGIC").strip().strip('"')
