from __future__ import annotations

import re
from pathlib import Path

from twice.ledger.db.schema import metadata

PAGE = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/ledger.md", "exec"), {})  # noqa: S102
    assert "no longer holds lake.core.dim_customer whole table" in capsys.readouterr().out


def test_the_page_names_every_table():
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert named == set(metadata.tables)
