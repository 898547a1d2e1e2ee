"""Magic commands of notebooks, line by line, as Python of the same lines."""

from __future__ import annotations

import re

MAGIC = re.compile(
    r"^(?P<indent>\s*)(?P<name>[A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_]\w*)*\s*=\s*)?(?P<sign>%|!!?)(?P<word>\w*)(?P<rest>.*)$"
)
_HELP = re.compile(r"^(?P<indent>\s*)(\?{1,2}[\w.%*]+|[A-Za-z_%][\w.*]*\?{1,2})\s*$")
# They run what stands behind them.
_RUNS = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun", "snakeviz", "pyinstrument"})
_OPTIONS = re.compile(r"^(\s*-{1,2}\w+(?:[= ]\d+)?)*\s*")
SQL = frozenset({"sql", "sparksql", "bigquery", "sparkSQL", "ksql", "read_sql"})


def plain(line: str) -> str:
    """Return a line of a notebook as Python: `%time f()` is `f()`, `df = %sql …` a call, `!ls` nothing.

    >>> plain("files = !ls"), plain("%time load(df)"), plain("df?"), plain("x = 1 % 2")
    ('files = None', 'load(df)', 'pass', 'x = 1 % 2')
    """
    found = MAGIC.match(line)
    if found is None:
        asked = _HELP.match(line)
        return f"{asked['indent']}pass" if asked else line
    name, indent, rest = found["name"] or "", found["indent"], found["rest"].strip()
    if found["sign"] == "%" and found["word"] in SQL and rest:
        return f"{indent}{name}{sql_call([rest])[0]}"
    if found["sign"] == "%" and found["word"] in _RUNS and rest:
        return f"{indent}{name}{_OPTIONS.sub('', rest)}"
    return f"{indent}{name}None" if name else f"{indent}pass"


def has_magic(text: str) -> bool:
    """Return whether a line of a text is a magic command."""
    return any(MAGIC.match(line) or _HELP.match(line) for line in text.split("\n"))


def sql_call(block: list[str]) -> list[str]:
    """Write SQL as a call, on as many lines."""
    body = [line.replace("\\", "\\\\").replace('"""', "'''") for line in block]
    if body and body[-1].endswith('"'):
        body[-1] += " "
    first = f'spark.sql("""{body[0]}'
    return [first, *body[1:-1], f'{body[-1]}""")'] if len(body) > 1 else [f'{first}""")']
