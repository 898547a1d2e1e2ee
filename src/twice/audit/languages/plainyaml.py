"""The part of YAML that dbt's files are written in: mappings, lists and plain values, by indentation."""

from __future__ import annotations

import re
from functools import lru_cache

Value = str | bool | list["Value"] | dict[str, "Value"]

_KEY = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^\s"'\[{#-][^:]*?|[^\s"'\[{#:-]))\s*:(?:\s+(.*))?$""")
_COMMENT = re.compile(r"(^|\s)#.*$")
_DEEPEST = 40
_LONGEST = 300_000


@lru_cache(maxsize=64)
def load(text: str) -> dict[str, Value]:
    r"""Return the mapping of a file; what is written in another way is left out.

    >>> load("models:\n  shop:\n    +materialized: table  # all of them\n    tags: [a, 'b']")
    {'models': {'shop': {'+materialized': 'table', 'tags': ['a', 'b']}}}
    """
    rows = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in (_without_comment(line) for line in text[:_LONGEST].expandtabs().split("\n"))
        if line.strip() and line.strip() != "---"
    ]
    value, _ = _block(rows, 0, 0) if rows else ({}, 0)
    return value if isinstance(value, dict) else {}


def _without_comment(line: str) -> str:
    return line if '"' in line or "'" in line else _COMMENT.sub("", line)


def _block(rows: list[tuple[int, str]], index: int, depth: int) -> tuple[Value, int]:
    if depth > _DEEPEST:
        return "", len(rows)
    indent, content = rows[index]
    return _list(rows, index, indent, depth) if content.startswith("-") else _mapping(rows, index, indent, depth)


def _mapping(rows: list[tuple[int, str]], index: int, indent: int, depth: int) -> tuple[Value, int]:
    found: dict[str, Value] = {}
    while index < len(rows) and rows[index][0] >= indent:
        match = _KEY.match(rows[index][1]) if rows[index][0] == indent else None
        index += 1
        if match is None:
            if rows[index - 1][1].startswith("- "):
                return found, index - 1
            continue
        key = next(group for group in match.groups()[:3] if group is not None)
        rest = (match[4] or "").strip()
        below = index < len(rows) and (
            rows[index][0] > indent or (rows[index][0] == indent and rows[index][1].startswith("- "))
        )
        if not rest and below:
            found[key], index = _block(rows, index, depth + 1)
        else:
            found[key] = _scalar(rest)
    return found, index


def _list(rows: list[tuple[int, str]], index: int, indent: int, depth: int) -> tuple[Value, int]:
    found: list[Value] = []
    while index < len(rows) and rows[index][0] == indent and rows[index][1].startswith("-"):
        item = rows[index][1][1:].lstrip()
        if _KEY.match(item):
            rows[index] = (indent + len(rows[index][1]) - len(item), item)
            value, index = _mapping(rows, index, rows[index][0], depth + 1)
            found.append(value)
        else:
            found.append(_scalar(item))
            index += 1
    return found, index


def _scalar(text: str) -> Value:
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return {"true": True, "false": False}.get(text.lower(), text)
