"""Spellings that sqlglot does not read, written as others that it does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

COMPOUND = re.compile(r"[-+*/%]=")
_ARITHMETIC = frozenset({TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD})
_JOINS = frozenset({TokenType.DOT, TokenType.PARAMETER})
_CLAUSES = frozenset({"WHERE", "GROUP BY", "GROUP", "HAVING", "ORDER BY", "ORDER", "SORT BY", "DISTRIBUTE BY", "CLUSTER BY", "LIMIT", "LATERAL"})  # fmt: skip


def expanded(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield `a = a + b` for T-SQL's `a += b`."""
    name: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if (
            name
            and token.token_type in _ARITHMETIC
            and following is not None
            and following.token_type is TokenType.EQ
            and following.start == token.end + 1
        ):
            yield following
            yield from name
            yield token
            name = []
            index += 2
            continue
        joined = bool(name) and name[-1].token_type in _JOINS
        if token.token_type in _JOINS:
            name = [*name, token] if token.token_type is TokenType.DOT else [token]
        elif token.token_type is TokenType.IDENTIFIER or token.text.isidentifier():  # a keyword may name a column too
            name = [*name, token] if joined else [token]
        else:
            name = []
        yield token
        index += 1


def inserts_of(chunk: Sequence[Token]) -> list[list[Token]]:
    """Cut Hive's `FROM a INSERT INTO b SELECT … INSERT INTO c SELECT …` into one statement for each target."""
    if chunk[0].text.upper() not in {"FROM", "WITH"}:
        return []
    top = list(_at_top(chunk))
    start = next((index for index in top if chunk[index].text.upper() == "FROM"), None)
    begins = [index for index in top if chunk[index].text.upper() == "INSERT"]
    if start is None or not begins or begins[0] < start:
        return []
    if any(index < begins[0] and chunk[index].text.upper() == "SELECT" for index in top):
        return []
    source = list(chunk[start : begins[0]])
    found = []
    for first, last in zip(begins, [*begins[1:], len(chunk)], strict=True):
        clause = next((index for index in top if first < index < last and chunk[index].text.upper() in _CLAUSES), last)
        found.append([*chunk[:start], *chunk[first:clause], *source, *chunk[clause:last]])
    return found


def _at_top(chunk: Sequence[Token]) -> Iterator[int]:
    """Yield the positions outside of all brackets."""
    depth = 0
    for index, token in enumerate(chunk):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0:
            yield index
