"""Cut SQL into words and parse its statements, in the dialect that was guessed or another that understands them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Token, Tokenizer, TokenType  # type: ignore[attr-defined]

from twice.audit.languages.sql.sources import HOLE, SqlText

if TYPE_CHECKING:
    from sqlglot.parser import Parser

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_OTHERS = ("", "postgres", "snowflake", "databricks", "tsql", "bigquery")
_LONGEST_STATEMENT = 150_000
_MOST_TOKENS = 60_000
# Deeper than this no statement is meant, and a compiled parser may end the process where Python's own raises.
_DEEPEST = 1_000
_OPENS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSES = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_SIGNS = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_END = re.compile(r";(\s*)(?=END\b)", re.IGNORECASE)
GO = re.compile(r"^([ \t]*)GO([ \t]*)$", re.IGNORECASE | re.MULTILINE)


@lru_cache(maxsize=64)
def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(name)


# Both reset their state for each text.
@lru_cache(maxsize=64)
def _tokenizer(dialect: str) -> Tokenizer:
    return _dialect(dialect).tokenizer()


@lru_cache(maxsize=64)
def _parser(dialect: str) -> Parser:
    return _dialect(dialect).parser(error_level=ErrorLevel.IMMEDIATE)


def tokenized(text: str, dialect: str) -> list[Token] | None:
    """Cut a text into words; None if no dialect can."""
    # sqlglot reads all that follows GO, or an END behind a semicolon, as one text.
    text = GO.sub(r"\1; \2", text)
    if dialect == "tsql":
        text = _END.sub(r" \1", text)
    for name in (dialect, "", "tsql", "snowflake"):
        try:
            tokens = _tokenizer(name).tokenize(text)
            return list(_without_raw_commands(tokens, name)) if _has_raw_command(tokens) else tokens
        except (SqlglotError, ValueError, IndexError, RecursionError):
            continue
    return None


_RAW = frozenset({"FETCH", "CALL", "BEGIN", "DO", "PREPARE", "DECLARE", "EXEC", "EXECUTE"})


def _has_raw_command(tokens: Sequence[Token]) -> bool:
    strings = [index for index, token in enumerate(tokens) if token.token_type is TokenType.STRING]
    return any(index and tokens[index - 1].text.upper() in _RAW for index in strings)


_CURSOR = re.compile(r"\bCURSOR\b", re.IGNORECASE)


def _without_raw_commands(tokens: list[Token], dialect: str) -> Iterator[Token]:
    """Cut CALL …, BEGIN …, EXECUTE IMMEDIATE … and DECLARE c CURSOR … into words: sqlglot takes all up to the semicolon as one text."""
    commands = _dialect(dialect).tokenizer_class.COMMANDS
    before, command = "", False
    for token in tokens:
        raw = before in {"FETCH", "CALL", "BEGIN", "DO", "PREPARE"} or (
            before == "DECLARE" and bool(_CURSOR.search(token.text))
        )
        raw = raw or (before in {"EXEC", "EXECUTE"} and (command or token.text[:9].upper() == "IMMEDIATE"))
        before, command = token.text.upper(), token.token_type in commands
        if token.token_type is not TokenType.STRING or not raw:
            yield token
            continue
        for one in _tokenizer(dialect).tokenize(token.text):
            # A string token is placed at its end.
            line = token.line - token.text.count("\n") + one.line - 1
            start = token.end - len(token.text) + 1 + one.start
            yield Token(one.token_type, one.text, line, one.col, start, start + one.end - one.start)


def text_of_chunk(source: SqlText, chunk: Sequence[Token]) -> str:
    """Return the text of some words."""
    return source.text[chunk[0].start : chunk[-1].end + 1]


def parsed(source: SqlText, dialect: str, chunk: list[Token]) -> exp.Expression | None:
    """Parse one statement; None if no dialect can."""
    if len(chunk) > _MOST_TOKENS:
        return None
    if len(chunk) > _DEEPEST and _is_too_deep(chunk):
        raise RecursionError
    node = _try(dialect, chunk, source.text)
    if node is not None:
        return node
    text = text_of_chunk(source, chunk)
    if len(text) > _LONGEST_STATEMENT:
        return None
    padding = "\n" * (chunk[0].line - 1)
    if re.match(r"\s*REPLACE\s+INTO", text, re.IGNORECASE):
        return None
    variants = [text]
    if HOLE.search(text):
        variants.append(_without_odd_holes(text))
    if _NOTHING_ON.search(text):
        variants.append(_NOTHING_ON.sub("ON tw_given", text))
    for variant in variants:
        for name in (dialect, *_OTHERS):
            if variant == text and name == dialect:
                continue
            try:
                tokens = _tokenizer(name).tokenize(padding + variant)
            except (SqlglotError, ValueError, IndexError):
                continue
            found = _try(name, tokens, padding + variant)
            if found is not None and not isinstance(found, exp.Command):
                return found
    return None


def _is_too_deep(chunk: Sequence[Token]) -> bool:
    """Return whether brackets, CASEs or signs are nested deeper than in any real query."""
    depth = signs = 0
    for token in chunk:
        kind = token.token_type
        signs = signs + 1 if kind in _SIGNS else 0
        depth = depth + 1 if kind in _OPENS else max(0, depth - (kind in _CLOSES))
        if depth > _DEEPEST or signs > _DEEPEST:
            return True
    return False


# A condition that the program composes in a loop, so it is not known: MERGE … ON {conditions} WHEN MATCHED …
_NOTHING_ON = re.compile(r"\bON(?=\s+WHEN\s+(NOT\s+)?MATCHED\b)", re.IGNORECASE)
_LONE_HOLE = re.compile(r"^[ \t]*__tw_hole_\d+__[ \t]*,?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_TRAILING_HOLE = re.compile(r"(?<=[\w)'])([ \t]+__tw_hole_\d+__)(?=[ \t]*(\n|$|\)))", re.IGNORECASE)


def _without_odd_holes(text: str) -> str:
    """Remove holes that stand for whole clauses: alone on their line, or behind a finished condition."""
    return _TRAILING_HOLE.sub("", _LONE_HOLE.sub("", text))


def _try(dialect: str, tokens: list[Token], text: str) -> exp.Expression | None:
    try:
        trees = _parser(dialect).parse(tokens, text)
    except (SqlglotError, ValueError, IndexError, KeyError, AttributeError, TypeError, AssertionError):
        return None
    found = [node for node in trees if node is not None]
    return cast("exp.Expression", found[0]) if len(found) == 1 else None
