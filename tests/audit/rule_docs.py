"""Write docs/rules/ from the docstrings of the rules and from their cases: `make docs-rules`."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from twice.audit.ranking import FAMILIES
from twice.audit.rules import Rule, rules

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "rules"
CASES = Path(__file__).parent / "cases"
LANGUAGES = {".py": "python", ".sql": "sql", ".ipynb": "json"}


def _block(case: dict) -> list[str]:
    language = LANGUAGES.get(Path(case["file"]).suffix, "")
    dialect = f", {case['dialect']}" if case.get("dialect") else ""
    lines = [f"**{case['name'][0].upper()}{case['name'][1:]}** (`{case['file']}`{dialect})"]
    found = sorted(item[1] for item in case["expect"])
    if found:
        lines[0] += f": line {', '.join(str(line) for line in found)}"
    for name, text in (case.get("files") or {}).items():
        lines += ["", f"`{name}`:", "", f"````{LANGUAGES.get(Path(name).suffix, '')}", text.rstrip("\n"), "````"]
    return [*lines, "", f"````{language}", case["source"].rstrip("\n"), "````", ""]


def page(rule: Rule) -> str:
    """Return the page of one rule."""
    body = rule.documentation.partition("\n")[2].strip("\n")
    lines = [
        f"# {rule.code}: {rule.title}",
        "",
        f"Severity: {rule.severity}. Family: {FAMILIES[rule.code[:3]][0]}.",
        "",
        body,
        "",
    ]
    file = CASES / f"{rule.code}.yml"
    cases = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else []
    for title, chosen in (
        ("Found", [case for case in cases if case["expect"]]),
        ("Not found, though it looks alike", [case for case in cases if not case["expect"]]),
    ):
        if chosen:
            lines += [f"## {title}", ""]
            for case in chosen:
                lines += _block(case)
    lines += ["[All rules](README.md)"]
    return "\n".join(lines).rstrip() + "\n"


def index() -> str:
    """Return the page that lists all rules."""
    lines = ["# The rules of `twice audit`", "", "Generated from the rules and their cases by `make docs-rules`.", ""]
    family = ""
    for rule in rules().values():
        if rule.code[:3] != family:
            family = rule.code[:3]
            name, meaning = FAMILIES[family]
            lines += [
                "",
                f"## {family}xx: {name}",
                "",
                meaning,
                "",
                "| Code | Severity | What it finds |",
                "|---|---|---|",
            ]
        lines.append(f"| [{rule.code}]({rule.code}.md) | {rule.severity} | {rule.title} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    return {"README.md": index(), **{f"{rule.code}.md": page(rule) for rule in rules().values()}}


def main() -> int:
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for file in PAGES.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(wanted)} pages to {PAGES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
