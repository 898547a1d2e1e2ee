"""Markdown: findings for a pull request or a wiki."""

from __future__ import annotations

import re

from twice.audit.findings import Severity
from twice.audit.output.summary import Summary
from twice.audit.rules import rules

_SIGNS = {Severity.ERROR: "**error**", Severity.WARNING: "warning", Severity.INFO: "info"}


def as_markdown(summary: Summary) -> str:
    """Write a table of findings per file."""
    known = rules()
    lines = [
        "# What breaks when these jobs run twice",
        "",
        f"{summary.sentence()[0].upper()}{summary.sentence()[1:]}.",
        "",
    ]
    path = ""
    for one in summary.findings:
        if one.path != path:
            path = one.path
            lines += [
                "",
                f"## {code(path)}",
                "",
                "| Line | Code | Severity | On the second run | Instead |",
                "|---|---|---|---|---|",
            ]
        title = known[one.code].title if one.code in known else ""
        lines.append(
            f"| {one.line} | {one.code} {cell(title)} | {_SIGNS[one.severity]} "
            f"| {cell(one.message)} | {cell(one.instead)} |"
        )
    return "\n".join(lines).rstrip() + "\n"


def cell(text: str) -> str:
    """Write a text so that it stays inside its cell."""
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def code(text: str) -> str:
    """Write a text as code, whatever backticks and line ends it holds."""
    text = text.replace("\n", " ").replace("\r", " ")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def code_cell(text: str) -> str:
    """Write a text as code that stays inside its cell."""
    return code(text).replace("|", "\\|")
