"""Procedures in JavaScript: the statements that stand in their texts."""

from __future__ import annotations

import re

_JAVASCRIPT = re.compile(r"\bLANGUAGE\s+'?javascript\b", re.IGNORECASE)
# A comment, or a text: `…` over several lines, "…" and '…' on one.
_PIECES = re.compile(r"//[^\n]*|/\*.*?\*/|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_STATEMENT = re.compile(
    r"\s*(insert\s+(into|overwrite)|delete\s+from|merge\s+into|update\s+[\w.]+\s+(\w+\s+)?set|truncate\s"
    r"|create\s+(or\s+replace\s+)?(transient\s+|temp\s+|temporary\s+)?table|drop\s+table|copy\s+into|call\s"
    r"|(begin(\s+(transaction|work))?|start\s+transaction|commit|rollback)\s*;?\s*$)",
    re.IGNORECASE,
)


# Text that continues an earlier one, and messages for people.
_NO_STATEMENT = re.compile(r"(\+|\breturn|\bthrow|\b(Error|log|push|includes|indexOf|startsWith)\s*\()\s*$")

_NEAR = 80


def is_javascript(text: str) -> bool:
    """Return whether the body of a procedure is JavaScript."""
    return bool(_JAVASCRIPT.search(text))


def statements_in(body: str) -> str:
    """Return the SQL that stands in the texts of a script, each statement where it was; all else is blank.

    >>> statements_in("var a = 1; run(`DELETE FROM t`);").split()
    ['DELETE', 'FROM', 't;']
    """
    kept: list[str] = []
    at = 0
    for piece in _PIECES.finditer(body):
        text = piece[0]
        before, after = body[max(at, piece.start() - _NEAR) : piece.start()], body[piece.end() : piece.end() + _NEAR]
        whole = not after.lstrip().startswith("+") and not _NO_STATEMENT.search(before)
        if text[0] in "`\"'" and whole and _STATEMENT.match(text[1:-1]):
            kept.extend((_blank(body[at : piece.start()]), " ", text[1:-1].rstrip().removesuffix(";"), ";"))
            kept.append(_blank(text[1 + len(text[1:-1].rstrip()) : -1]))
        else:
            kept.append(_blank(body[at : piece.end()]))
        at = piece.end()
    return "".join([*kept, _blank(body[at:])])


def _blank(text: str) -> str:
    return "".join("\n" if sign == "\n" else " " for sign in text)
