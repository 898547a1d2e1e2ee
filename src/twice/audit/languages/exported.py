"""Notebooks exported as Python: their magic commands as plain Python of the same lines."""

from __future__ import annotations

import re


def exported(text: str) -> str:
    """Turn an exported notebook into plain Python of the same lines: `# MAGIC %sql` becomes spark.sql(...)."""
    out: list[str] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("# MAGIC %sql"):
            block = [line.removeprefix("# MAGIC %sql")]
            while index + 1 < len(lines) and lines[index + 1].startswith("# MAGIC"):
                index += 1
                block.append(lines[index].removeprefix("# MAGIC").removeprefix(" "))
            out.extend(sql_call(block))
        elif line.startswith("# MAGIC"):
            out.append("")
        elif re.match(r"^\s*[%!]", line):
            indent = line[: len(line) - len(line.lstrip())]
            out.append(f"{indent}pass")
        else:
            out.append(line)
        index += 1
    return "\n".join(out)


def sql_call(block: list[str]) -> list[str]:
    """Write SQL as a call, on as many lines."""
    body = [line.replace("\\", "\\\\").replace('"""', "'''") for line in block]
    if body and body[-1].endswith('"'):
        body[-1] += " "
    first = f'spark.sql("""{body[0]}'
    return [first, *body[1:-1], f'{body[-1]}""")'] if len(body) > 1 else [f'{first}""")']
