"""On which line of the file each line of a string literal stands."""

from __future__ import annotations

import ast
import re

_START = re.compile(r"([A-Za-z]{0,3})('''|\"\"\"|'|\")")


def literal_lines(node: ast.expr, lines: list[str]) -> list[int]:
    """Return the line of the file for every line of the value of a string literal or f-string."""
    first = node.lineno
    last = node.end_lineno or first
    if first == last:
        return [first]
    source = lines[first - 1 : last]
    if not source:
        return [first]
    if _plain(node, source, last - first):
        return list(range(first, last + 1))
    source = list(source)
    end = node.end_col_offset
    if end is not None:
        source[-1] = source[-1].encode("utf-8", "surrogatepass")[:end].decode("utf-8", "replace")
    source[0] = source[0].encode("utf-8", "surrogatepass")[node.col_offset :].decode("utf-8", "replace")
    text = "\n".join(source)
    return _walk(text, first)


def _plain(node: ast.expr, source: list[str], breaks: int) -> bool:
    """Return whether a literal is one text in triple quotes, each of its lines on a line of its own."""
    if any("\\" in line for line in source):
        return False
    start = source[0].encode("utf-8", "surrogatepass")[node.col_offset :].lstrip(b"rRfFbBuU")
    if not start.startswith((b'"""', b"'''")):
        return False
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.count("\n") == breaks
    if isinstance(node, ast.JoinedStr):
        texts = (part.value for part in node.values if isinstance(part, ast.Constant) and isinstance(part.value, str))
        return sum(text.count("\n") for text in texts) == breaks
    return False


def _walk(text: str, first: int) -> list[int]:
    found = [first]
    line = first
    position = 0
    started = False
    while position < len(text):
        match = _START.match(text, position)
        if not match:
            if text[position] == "#":
                end = text.find("\n", position)
                position = len(text) if end < 0 else end
                continue
            if text[position] == "\n":
                line += 1
            position += 1
            continue
        prefix, quote = match[1].lower(), match[2]
        raw, formatted = "r" in prefix, "f" in prefix
        position = match.end()
        if not started:
            found[0] = line
            started = True
        depth = 0
        while position < len(text):
            char = text[position]
            if formatted and char == "{":
                if text.startswith("{{", position) and not depth:
                    position += 2
                    continue
                depth += 1
            elif formatted and char == "}" and depth:
                depth -= 1
            elif text.startswith(quote, position) and not depth:
                position += len(quote)
                break
            elif char == "\\" and not raw and not depth:
                follows = text[position + 1 : position + 2]
                if follows == "\n":
                    line += 1
                    found[-1] = line if text[position - len(quote) : position] == quote else found[-1]
                elif follows == "n":
                    found.append(line)
                position += 2
                continue
            elif char == "\n":
                line += 1
                if not depth:
                    found.append(line)
            position += 1
    return found
