"""Cut tokens into statements: at semicolons, and in procedures and T-SQL also where a statement must begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

STARTERS = frozenset(
    {
        "INSERT", "BULK", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "DROP", "CREATE", "ALTER", "DECLARE", "SET", "EXEC", "EXECUTE",
        "IF", "ELSE", "ELSEIF", "ELSIF", "WHILE", "BEGIN", "END", "COMMIT", "ROLLBACK", "PRINT", "RETURN", "RAISE", "RAISERROR", "THROW",
        "GO", "WITH", "SELECT", "COPY", "CALL", "PERFORM", "LOOP", "FOR", "EXCEPTION", "SAVE", "OPEN", "FETCH", "CLOSE", "DEALLOCATE",
        "THEN", "USE", "LET",
    }
)  # fmt: skip
_ROUTINES = frozenset({"PROCEDURE", "PROC", "FUNCTION", "TRIGGER", "TASK", "EVENT", "PACKAGE"})
# A word, and the pattern that it must be part of: most words are nowhere in a text, and that is quick to see.
_PROCEDURAL = tuple(
    (word, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for word, pattern in (
        ("declare", r"\bDECLARE\b"),
        ("begin", r"\bBEGIN\s+(?!TRAN|WORK|;)\w|\bBEGIN\s+TRY\b"),
        ("create", r"\bCREATE\s+(OR\s+(REPLACE|ALTER)\s+)?(PROC(EDURE)?|FUNCTION|TRIGGER|TASK)\b"),
        ("alter", r"\bALTER\s+(OR\s+(REPLACE|ALTER)\s+)?(PROC(EDURE)?|FUNCTION|TRIGGER|TASK)\b"),
        ("go", r"^[ \t]*GO[ \t]*$"),
        ("if", r"^[ \t]*IF\b"),
    )
)
_SET_OPERATORS = frozenset({"UNION", "ALL", "EXCEPT", "INTERSECT", "DISTINCT", "MINUS"})


def is_procedural(text: str, dialect: str) -> bool:
    """Return whether statements may follow each other without a semicolon."""
    if dialect == "tsql":
        return True
    lowered = text.lower()
    return any(word in lowered and pattern.search(text) for word, pattern in _PROCEDURAL)


def split(tokens: Sequence[Token], *, procedural: bool) -> Iterator[list[Token]]:
    """Yield the tokens of one statement after the other, without the semicolons."""
    if not procedural:
        yield from _at_semicolons(tokens)
        return
    chunk: list[Token] = []
    depth = 0
    cases = 0
    for index, token in enumerate(tokens):
        text = token.text.upper() if token.token_type not in _STRINGS else ""
        if token.token_type is TokenType.SEMICOLON:
            if chunk:
                yield chunk
            chunk, depth, cases = [], 0, 0
            continue
        if chunk and depth <= 0 and text in STARTERS:
            if (text == "END" and cases) or (text == "ELSE" and cases) or (text == "THEN" and cases):
                pass
            elif _begins(text, chunk, tokens, index):
                yield chunk
                chunk, cases = [], 0
        if text == "CASE":
            cases += 1
        elif text == "END" and cases:
            cases -= 1
        elif token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        chunk.append(token)
    if chunk:
        yield chunk


def _at_semicolons(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    semicolon, opens, closes = TokenType.SEMICOLON, TokenType.L_PAREN, TokenType.R_PAREN
    first = depth = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is opens:
            depth += 1
        elif kind is closes:
            depth -= 1
        elif kind is semicolon and depth <= 0:
            if index > first:
                yield list(tokens[first:index])
            first, depth = index + 1, 0
    if len(tokens) > first:
        yield list(tokens[first:])


_STRINGS = frozenset(
    {TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING}
)


def _words(chunk: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in chunk if token.token_type not in _STRINGS]


def _begins(text: str, chunk: Sequence[Token], tokens: Sequence[Token], index: int) -> bool:
    """Return whether this word begins a new statement rather than continues the one before."""
    head = chunk[0].text.upper()
    if head == "WITH":  # WITH … MERGE INTO …: what follows the common table expressions decides
        head = next((word for word in ("MERGE", "INSERT", "UPDATE", "DELETE") if word in _top_level(chunk)), head)
    previous = chunk[-1].text.upper()
    following = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
    if head in {"BEGIN", "ELSE", "END", "THEN", "LOOP", "GO", "EXCEPTION", "TRY"}:
        return not (head in {"BEGIN", "END"} and text in {"IF", "LOOP", "CASE", "FOR"} and head == "END")
    if head in {"IF", "WHILE", "ELSEIF", "ELSIF", "FOR"}:
        if text == "SELECT":
            return previous == ")" or chunk[-1].line < tokens[index].line
        return text not in {"FOR", "IF", "SET"} or chunk[-1].line < tokens[index].line
    if previous in {"THEN", "DO", "ON", "BEFORE", "AFTER", "OR", "INSTEAD"} and text in {
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
    }:
        return head not in {"MERGE", "WITH", "INSERT", "CREATE", "ALTER"}
    if text == "THEN" and head == "MERGE":  # WHEN MATCHED … on one line, THEN … on the next
        return False
    if text == "WITH":
        return (
            following != "("
            and head not in {"INSERT", "CREATE", "MERGE", "COPY", "EXEC", "EXECUTE", "WITH", "ALTER"}
            and _new_line(chunk, tokens, index)
        )
    words = _words(chunk)
    if text == "SELECT":
        if previous in _SET_OPERATORS or previous in {"AS", "(", ",", "IN", "EXISTS", "FOR"}:
            return head == "CREATE" and bool(_ROUTINES & set(words[:5])) and previous == "AS"
        if head == "WITH":
            return "SELECT" in _top_level(chunk) and _new_line(chunk, tokens, index)
        if head == "INSERT":
            return ("SELECT" in _top_level(chunk) or "VALUES" in words or "EXEC" in words) and _new_line(
                chunk, tokens, index
            )
        if head == "CREATE":
            return bool(_ROUTINES & set(words[:5])) and _new_line(chunk, tokens, index)
        return _new_line(chunk, tokens, index) and head not in {"MERGE", "COPY", "EXPLAIN"}
    if text == "SET":
        return (
            head not in {"UPDATE", "MERGE", "ALTER", "INSERT"}
            or (head == "UPDATE" and "SET" in words and _new_line(chunk, tokens, index))
            or (head == "INSERT" and previous != "UPDATE" and _new_line(chunk, tokens, index))
        )
    if text in {"INSERT", "UPDATE", "DELETE", "MERGE"} and head == "WITH":
        return "SELECT" in _top_level(chunk)
    if text in {"INSERT", "UPDATE", "DELETE", "MERGE"} and head == "CREATE":
        goes_on = following in {"INTO", "FROM", "OVERWRITE"} and _new_line(chunk, tokens, index)
        return bool(_ROUTINES & set(words[:5])) or (goes_on and "SELECT" in _top_level(chunk))
    if text == "UPDATE" and previous in {"FOR", "KEY", "CONFLICT"}:
        return False
    if text == "CALL" and previous == "AS" and head == "CREATE":
        return bool(_ROUTINES & set(words[:5]))
    if text in {"DROP", "TRUNCATE"} and head == "ALTER":
        return False
    if text == "IF" and (
        following in {"EXISTS", "NOT"}
        and head in {"DROP", "CREATE", "ALTER", "TRUNCATE"}
        and len(chunk) < 8
        and "AS" not in words
    ):
        return False
    if text in {
        "FOR",
        "IF",
        "USE",
        "OPEN",
        "CLOSE",
        "FETCH",
        "CALL",
        "COPY",
        "RETURN",
        "EXECUTE",
        "EXEC",
        "EXCEPTION",
        "LOOP",
        "LET",
        "GO",
        "PRINT",
        "THROW",
        "RAISE",
        "SAVE",
        "THEN",
    }:
        return _new_line(chunk, tokens, index)
    if text == "BEGIN":
        return True
    if text in {"END", "ELSE"}:
        return True
    return _new_line(chunk, tokens, index) or head in {"SET", "DECLARE", "PRINT", "EXEC"}


def _new_line(chunk: Sequence[Token], tokens: Sequence[Token], index: int) -> bool:
    return chunk[-1].line < tokens[index].line


def _top_level(chunk: Sequence[Token]) -> set[str]:
    depth = 0
    found: set[str] = set()
    for token in chunk:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0:
            found.add(token.text.upper())
    return found
