"""The code fingerprint changes with what makes the rows, and with nothing else."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

from twice.engine.attempt.fingerprint import changed_parts, fingerprint, parts

JOB = """
import functools
from datetime import date
from decimal import Decimal
from twice import Day, Overwrite, Pipeline, Table
from {name}_rates import convert
import {name}_shared

LIMIT = Decimal("1.1")
SINCE = date(2026, 1, 1)
raw = Table("lake.raw.o", partition=Day("d"), event_time="at")
out = Table("lake.core.o", partition=Day("d"), key=["id"], write=Overwrite())
p = Pipeline("p", grain=Day)

@functools.lru_cache
def cached():
    return 1

class Rules:
    def apply(self, rows):
        return rows.where(LIMIT)

@p.step(reads={{"raw": raw}}, writes=out)
def facts(raw):
    '''Says what it does.'''
    # a comment
    return Rules().apply(convert(raw, LIMIT, SINCE, cached(), {name}_shared.x))
"""
FILES = {
    "{name}_rates.py": "def convert(*a):\n    return a[0]\n",
    "{name}_shared.py": "from {name}_deep import x\n",
    "{name}_deep.py": "x = 1\n",
    "{name}.py": JOB,
}


def of(folder: Path, name: str, changes: dict[str, tuple[str, str]]) -> str:
    """Write the project with some changes, import it afresh, and fingerprint its step."""
    for file, text in FILES.items():
        old, new = changes.get(file, ("", ""))
        assert old in text
        (folder / file.format(name=name)).write_text(
            textwrap.dedent(text.replace(old, new) if old else text).format(name=name)
        )
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]
    importlib.invalidate_caches()
    return fingerprint(importlib.import_module(name).p.steps["facts"])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("{name}.py", 'Decimal("1.1")', 'Decimal("1.2")'),
        ("{name}.py", "date(2026, 1, 1)", "date(2026, 1, 2)"),
        ("{name}.py", 'event_time="at"', 'event_time="seen_at"'),
        ("{name}.py", "return 1\n", "return 2\n"),
        ("{name}.py", "rows.where(LIMIT)", "rows.filter(LIMIT)"),
        ("{name}.py", 'key=["id"]', 'key=["nr"]'),
        ("{name}_rates.py", "a[0]", "a[1]"),
        ("{name}_deep.py", "x = 1", "x = 2"),
    ],
)
def test_a_change_of_what_makes_the_rows_is_seen(project: Path, file: str, old: str, new: str) -> None:
    assert of(project, "jobx", {}) != of(project, "jobx", {file: (old, new)})


@pytest.mark.parametrize(
    ("old", "new"), [("# a comment", "# another"), ("Says what it does.", "Says it."), ("\nLIMIT", "\n\n\nLIMIT")]
)
def test_comments_docstrings_and_layout_do_not_count(project: Path, old: str, new: str) -> None:
    assert of(project, "joby", {}) == of(project, "joby", {"{name}.py": (old, new)})


def test_the_same_code_has_the_same_fingerprint_in_every_import(project: Path) -> None:
    assert of(project, "jobz", {}) == of(project, "jobz", {})


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("{name}.py", "a comment\n    return", "a comment\n    raw = raw\n    return", ("function jobw.facts",)),
        ("{name}.py", 'Decimal("1.1")', 'Decimal("1.2")', ("LIMIT in jobw.Rules", "LIMIT in jobw.facts")),
        ("{name}.py", "rows.where(LIMIT)", "rows.filter(LIMIT)", ("class jobw.Rules",)),
        ("{name}.py", 'key=["id"]', 'key=["nr"]', ("the contract of its table",)),
        ("{name}.py", 'event_time="at"', 'event_time="seen_at"', ("how it reads raw",)),
        ("{name}_rates.py", "a[0]", "a[1]", ("function jobw_rates.convert",)),
        ("{name}_deep.py", "x = 1", "x = 2", ("module jobw_deep",)),
        ("{name}.py", "# a comment", "# another", ()),
    ],
)
def test_what_changed_is_named(project: Path, file: str, old: str, new: str, named: tuple[str, ...]) -> None:
    of(project, "jobw", {})
    before = parts(sys.modules["jobw"].p.steps["facts"])
    of(project, "jobw", {file: (old, new)})
    assert changed_parts(before, parts(sys.modules["jobw"].p.steps["facts"])) == named


def test_what_was_added_and_what_is_gone_are_named_after_what_changed() -> None:
    before = {"m.f:0": "a", "m.old:0": "b", "sql": "c", "version": ""}
    now = {"m.f:0": "z", "m.new:0": "b", "sql": "c", "version": "2"}
    assert changed_parts(before, now) == ("function m.f", "its version=", "function m.new", "function m.old")
    assert changed_parts(now, now) == ()
