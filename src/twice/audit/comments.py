"""Where comments and statements stand in a file: what `# twice: ok …` may be, and what it speaks for."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from twice.audit.languages.exported import exported
from twice.audit.languages.reading import is_python

Span = tuple[int, int]  # the first and the last line

_SQL_PARTS = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z)|\{\#.*?(?:\#\}|\Z)|(?://|\#)(?=\s*twice:)[^\n]*)
    |(?P<literal>'(?:[^'\\]|''|\\(?!'\s*(?:[,);]|$)).|\\)*(?:'|\Z)|"[^"]*"|`[^`]*`)
    |(?P<end>;|^[ \t]*GO[ \t]*$)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_SQL_WORD = re.compile(
    r"\b(insert|select|delete|merge|update|create|drop|alter|truncate|copy|load|call|exec|execute|replace|with|begin)\b",
    re.IGNORECASE,
)
_CELL_KEY = re.compile(r'"(cell_type|source|outputs|metadata|execution_count|id|attachments)":\s*(?:"(\w*)")?')


@dataclass(frozen=True)
class Layout:
    """The comments and statements of a file; `everywhere` if nothing is known, and any line may hold a comment."""

    comments: dict[int, int] = field(default_factory=dict)  # line: the column in which its comment begins
    sql: tuple[Span, ...] = ()  # SQL inside Python
    statements: tuple[Span, ...] = ()
    everywhere: bool = False

    def is_comment(self, line: str, number: int, column: int, sign: str) -> bool:
        """Return whether what begins in a column (counted from 0) is a comment."""
        if self.everywhere or column >= self.comments.get(number, len(line) + 1):
            return True
        inside = sign != "#" and any(first <= number <= last for first, last in self.sql)
        return inside and line[:column].count("'") % 2 == 0

    def statement(self, number: int) -> Span:
        """Return the innermost statement that a line belongs to, or the line alone."""
        around = [span for span in self.statements if span[0] <= number <= span[1]]
        return max(around, key=lambda span: (span[0], -span[1]), default=(number, number))


def layout(path: str, text: str) -> Layout:
    """Find the comments and statements of a file in any of the languages."""
    if path.lower().endswith(".ipynb"):
        # Of a notebook on one line the lines of its cells are given.
        return _of_notebook(text) if text.lstrip().startswith("{") else _of_python(text)
    return _of_python(text) if is_python(path, text) else _of_sql(text)


def _of_python(text: str) -> Layout:
    source = exported(text) if "# MAGIC" in text else text
    tree = _parsed(source)
    if tree is None:
        source = exported(text)
        tree = _parsed(source)
    comments = _python_comments(source)
    if tree is None or comments is None:
        return Layout(everywhere=True)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    lines = source.split("\n")
    texts = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if (isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)))
        and id(node) not in bare
    ]
    sql = tuple(span for span in texts if _SQL_WORD.search("\n".join(lines[span[0] - 1 : span[1]])))
    return Layout(comments, sql, tuple(_python_statements(tree)))


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _python_comments(source: str) -> dict[int, int] | None:
    try:
        return {
            token.start[0]: token.start[1]
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None


def _python_statements(tree: ast.Module) -> Iterator[Span]:
    """Yield the lines of each statement; of one with a body only its head."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            body = getattr(node, "body", None)
            inner = body[0].lineno if body else node.lineno + 1 if hasattr(node, "cases") else 0
            last = max(node.lineno, inner - 1) if inner else node.end_lineno or node.lineno
            yield first, last


def _of_sql(text: str) -> Layout:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    comments: dict[int, int] = {}
    code: list[str] = []
    ends: list[int] = []
    position = 0
    for match in _SQL_PARTS.finditer(text):
        if match["comment"] is not None:
            line = bisect_right(starts, match.start())
            comments.setdefault(line, match.start() - starts[line - 1])
            comments.update((below, 0) for below in range(line + 1, line + 1 + match[0].count("\n")))
            code += (text[position : match.start()], " " * len(match[0]))
            position = match.end()
        elif match["end"] is not None:
            ends.append(match.end())
    code.append(text[position:])
    return Layout(comments, statements=tuple(_sql_statements("".join(code), ends, starts)))


def _sql_statements(code: str, ends: list[int], starts: list[int]) -> Iterator[Span]:
    start = 0
    for end in (*ends, len(code)):
        piece = code[start:end]
        if piece.strip():
            first, last = start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()) - 1
            yield bisect_right(starts, first), bisect_right(starts, last)
        start = end


def _of_notebook(text: str) -> Layout:
    """Take the lines of code cells; their statements end where their brackets are closed."""
    comments: dict[int, int] = {}
    statements: list[Span] = []
    kind, inside, first, depth = "", False, 0, 0
    for number, line in enumerate(text.split("\n"), start=1):
        key = _CELL_KEY.match(line.strip())
        if key:
            kind = key[2] or "" if key[1] == "cell_type" else kind
            inside, depth = key[1] == "source" and kind == "code", 0
        if not inside:
            continue
        comments[number] = 0
        written = _cell_line(line)
        first = number if depth <= 0 else first
        depth = max(0, depth) + len(re.findall(r"[(\[{]", written)) - len(re.findall(r"[)\]}]", written))
        if depth <= 0:
            statements.append((first, number))
    return Layout(comments, statements=tuple(statements))


def _cell_line(line: str) -> str:
    try:
        found = json.loads(line.strip().removesuffix(","))
    except ValueError:
        return ""
    return re.sub(r"#.*", "", found) if isinstance(found, str) else ""
