"""docs/scenarios.md tells the truth: every test it names exists, every numbered test is in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text()


def page_rows() -> dict[int, str]:
    return {int(number): line for line in PAGE.splitlines() for number in re.findall(r"^\| S(\d\d) \|", line)}


def named(line: str) -> set[tuple[str, str]]:
    """Return the tests that a row names, each with its file."""
    found, file = set(), ""
    for name in re.findall(r"`([\w./]+)`", line.split("|")[4]):
        if name.endswith(".py"):
            file = name
        else:
            found.add((file, name))
    return found


def existing() -> set[tuple[str, str]]:
    return {
        (str(file.relative_to(ROOT)), node.name)
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_number_has_a_row():
    assert list(page_rows()) == [*range(1, 57), 58, 59]


def test_every_test_that_the_page_names_exists():
    assert {test for line in page_rows().values() for test in named(line)} - existing() == set()


def test_every_numbered_test_stands_in_the_row_of_its_number():
    numbered = {(int(match[1]), test) for test in existing() if (match := re.match(r"test_s(\d\d)_", test[1]))}
    listed = {(number, test) for number, line in page_rows().items() for test in named(line)}
    assert numbered - listed == set(), "add them to docs/scenarios.md"


def test_a_row_without_a_test_says_later():
    for number, line in page_rows().items():
        assert named(line) or line.endswith("| later |"), f"S{number:02d} is proven by nothing"
