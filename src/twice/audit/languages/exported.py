"""Notebooks exported as Python: their magic commands as plain Python of the same lines."""

from __future__ import annotations

from twice.audit.languages.magics import plain, sql_call


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
        else:
            out.append(plain(line))
        index += 1
    return "\n".join(out)
