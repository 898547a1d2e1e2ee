"""`# twice: ok TW101 because …`: what somebody looked at and found right, with the reason."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.places import Place

_MARK = re.compile(r"(?P<sign>#|--|//|/\*|\{#)\s*twice:\s*ok\b(?P<rest>.*)", re.IGNORECASE)
_CODE = re.compile(r"\bTW\d*\w*\b", re.IGNORECASE)
_REASON = re.compile(r"\bbecause\b\s*[:,-]?\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Suppression:
    """One comment: which codes, why, and which lines it speaks for."""

    codes: tuple[str, ...]
    reason: str
    place: Place
    first: int
    last: int

    def covers(self, code: str, place: Place) -> bool:
        """Tell whether it speaks for a finding; without a reason it speaks for none."""
        if not self.reason or code not in self.codes:
            return False
        return self.first <= place.line <= self.last or place.line <= self.place.line <= place.last_line


def find(path: str, text: str) -> list[Suppression]:
    """Return the suppressions of a file.

    >>> find("a.sql", "INSERT INTO t SELECT 1 -- twice: ok TW301 because the log only grows")[0].reason
    'the log only grows'
    """
    if "twice:" not in text.lower():
        return []
    lines = text.split("\n")
    comments = _comment_lines(text) if path.endswith(".py") else None
    return list(_all(lines, comments))


def _all(lines: list[str], comments: set[int] | None) -> Iterator[Suppression]:
    for number, line in enumerate(lines, start=1):
        match = _MARK.search(line)
        if not match or (match["sign"] == "#" and comments is not None and number not in comments):
            continue
        rest = re.sub(r"(\*/|#\}|\\n\",?|\",?)\s*$", "", match["rest"]).strip()
        reason = _REASON.search(rest)
        before = rest[: reason.start()] if reason else rest
        codes = tuple(dict.fromkeys(code.upper() for code in _CODE.findall(before)))
        alone = not line[: match.start()].strip().strip('"')
        first, last = (number, number) if not alone else (number, _next_line(lines, number))
        why = reason[1].strip() if reason else ""
        yield Suppression(codes, why if re.search(r"\w", why) else "", Place(number, match.start() + 1), first, last)


def _next_line(lines: list[str], number: int) -> int:
    """Return the first line below a comment that is no comment."""
    for below in range(number + 1, min(len(lines), number + 20) + 1):
        text = lines[below - 1].strip().strip('"')
        if text and not text.startswith(("#", "--", "//")):
            return below
    return number


def _comment_lines(text: str) -> set[int] | None:
    """Return the lines with real Python comments, so that a docstring suppresses nothing."""
    found: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.add(token.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return found
