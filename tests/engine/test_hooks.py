"""The failure hook as a shell command."""

from __future__ import annotations

import json

import pytest

from twice import config
from twice.engine.hooks import on_failure


@pytest.mark.parametrize(
    "value", ["ops; touch executed", "$(touch executed)", "`touch executed`", "a' ; touch executed '"]
)
def test_a_value_from_the_environment_is_never_run(tmp_path, monkeypatch, value):
    monkeypatch.setenv("CHANNEL", value)
    (tmp_path / "twice.toml").write_text("""on_failure = 'printf %s "${CHANNEL}" > told; cat > run.json'""")
    assert on_failure(config.load(tmp_path / "twice.toml"), {"run": 7}) == ""
    assert (tmp_path / "told").read_text() == value
    assert json.loads((tmp_path / "run.json").read_text()) == {"run": 7}
    assert not (tmp_path / "executed").exists()
