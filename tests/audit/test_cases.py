"""Every rule against its cases: code that it must find, and code beside it that looks alike and is right."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
import yaml

from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig
from twice.audit.rules import rules

CASES = Path(__file__).parent / "cases"


def _load():
    for file in sorted(CASES.glob("TW*.yml")):
        for case in yaml.safe_load(file.read_text(encoding="utf-8")):
            yield pytest.param(file.stem, case, id=f"{file.stem}-{case['name']}")


def neighbours(files, path):
    folder = PurePosixPath(path).parent

    def read(relative):
        parts = []
        for part in (folder / relative).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return files.get("/".join(parts))

    return read


@pytest.mark.parametrize(("code", "case"), list(_load()))
def test_case(code, case):
    """Compare everything that is found: `expect` holds what the rule finds, `also` what other rules do."""
    config = AuditConfig(dialect=case.get("dialect", ""))
    files = {str(name): text for name, text in (case.get("files") or {}).items()}
    result = audit_text(case["file"], case["source"], config, neighbours(files, case["file"]))
    assert {item[0] for item in case["expect"]} <= {code}
    found = sorted((one.code, one.line) for one in result.findings)
    expected = sorted((item[0], item[1]) for item in (*case["expect"], *case.get("also", ())))
    assert found == expected, "\n".join(
        [case["source"], *(f"{one.line}: {one.code} {one.message}" for one in result.findings)]
    )
    for one in result.findings:
        assert one.message
        assert "\n" not in one.message, one.message
        assert one.instead, f"{one.code} does not say what to write instead"


def test_every_rule_has_three_failing_and_three_passing_cases():
    for code in rules():
        cases = yaml.safe_load((CASES / f"{code}.yml").read_text(encoding="utf-8"))
        failing = [case for case in cases if case["expect"]]
        passing = [case for case in cases if not case["expect"]]
        assert len(failing) >= 3, f"{code} has {len(failing)} failing cases"
        assert len(passing) >= 3, f"{code} has {len(passing)} passing cases"


def test_every_case_file_belongs_to_a_rule():
    assert {file.stem for file in CASES.glob("*.yml")} == set(rules())
