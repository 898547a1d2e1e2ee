"""docs/rules says what the rules and their cases say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FILE = Path(__file__).parent / "rule_docs.py"


def _module():
    spec = importlib.util.spec_from_file_location("rule_docs", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current():
    docs = _module()
    there = {file.name: file.read_text(encoding="utf-8") for file in docs.PAGES.glob("*.md")}
    assert there == docs.pages(), "run `make docs-rules`"


def test_every_rule_says_what_to_write_instead():
    for rule in _module().rules().values():
        assert "nstead" in rule.documentation, f"{rule.code} does not say what to write instead"
        assert not rule.title.endswith("."), rule.title
