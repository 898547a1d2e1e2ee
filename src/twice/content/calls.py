"""Find calls of one function in Spark SQL text and replace only them.

A query that went through a parser and back may mean something else; here every character outside of
the calls stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from twice.errors import DefinitionError

# Spark's own lexical rules: strings with backslashes, raw strings, quoted names, comments, words.
_TOKEN = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])* )
  | (?P<open_comment> /\* )
  | (?P<quoted> (?: [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*`
                 | ['"`].*\Z ) )  # the last: a quote that is never closed
  | (?P<word> \w+ )
  | (?P<space> \s+ )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_IGNORED = ("comment", "space")


def typed_literals(text: str) -> Iterator[tuple[str, str]]:
    """Yield literals with their type before them, such as `date'today'`, as (type, content)."""
    words = [(kind, text[start:end]) for kind, start, end in _tokens(text) if kind not in _IGNORED]
    for (kind, word), (following, literal) in pairwise(words):
        if kind == "word" and following == "quoted" and literal[0] in "'\"":
            yield word.lower(), literal[1:-1]


def _tokens(text: str) -> list[tuple[str, int, int]]:
    tokens = []
    position = 0
    while match := _TOKEN.match(text, position):
        kind, end = str(match.lastgroup), match.end()
        if kind == "open_comment":
            kind, end = "comment", _comment_end(text, end)
        tokens.append((kind, position, end))
        position = end
    return tokens


def _comment_end(text: str, position: int) -> int:
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(text, position):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def expand_calls(text: str, name: str, render: Callable[..., str]) -> str:
    """Replace `name(a, b)` by `render("a", "b")`; calls inside of arguments are replaced first."""
    tokens = _tokens(text)
    result, copied, index = [], 0, 0
    while index < len(tokens):
        opening = _call_at(text, tokens, index, name)
        if opening is None:
            index += 1
            continue
        arguments, closing = _arguments(text, tokens, opening, name)
        result.append(text[copied : tokens[index][1]])
        result.append(render(*(expand_calls(argument, name, render) for argument in arguments)))
        copied = tokens[closing][2]
        index = closing + 1
    result.append(text[copied:])
    return "".join(result)


def _call_at(text: str, tokens: list[tuple[str, int, int]], index: int, name: str) -> int | None:
    """The index of the opening parenthesis when a call of the unqualified function starts here."""
    kind, start, end = tokens[index]
    if kind != "word" or text[start:end].lower() != name:
        return None
    before = next((t for t in reversed(tokens[:index]) if t[0] not in _IGNORED), None)
    if before is not None and text[before[1] : before[2]] in (".", ":", "@", "$"):
        return None
    for following in range(index + 1, len(tokens)):
        if tokens[following][0] not in _IGNORED:
            return following if text[slice(*tokens[following][1:])] == "(" else None
    return None


def _arguments(text: str, tokens: list[tuple[str, int, int]], opening: int, name: str) -> tuple[list[str], int]:
    """The argument texts without comments, and the index of the closing parenthesis."""
    arguments, current, depth = [], "", 0
    for index in range(opening + 1, len(tokens)):
        kind, start, end = tokens[index]
        piece = " " if kind == "comment" else text[start:end]
        if kind == "other":
            if piece == "?":
                raise DefinitionError(
                    f"{name}(…) cannot hold the positional marker `?`, because its argument is used more "
                    "than once. Use a named marker such as :window_start"
                )
            if depth == 0 and piece in ",)":
                arguments.append(current.strip())
                current = ""
                if piece == ")":
                    return ([] if arguments == [""] else arguments), index
                continue
            depth += (piece in "([{") - (piece in ")]}")
        current += piece
    raise DefinitionError(f"a call of {name}( in the SQL query is never closed")
