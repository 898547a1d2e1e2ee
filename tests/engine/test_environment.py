"""What a machine may lack: a sentence, and nothing begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice import config as configuration
from twice.api import runtime
from twice.errors import ConfigError, EnvironmentProblem


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / "twice.toml"
    file.write_text('[profiles.default]\npackages = ["org.example:no-such-thing:1.0"]\n')
    return file


def begin(file: Path) -> None:
    """Open what a run needs."""
    with runtime(configuration.load(file)):
        raise AssertionError("it began")


def test_without_java_nothing_begins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentProblem, match="needs Java 17") as found:
        begin(project)
    assert found.value.exit_code == 3
    assert "install" in found.value.next_step
    assert [file.name for file in project.parent.iterdir()] == ["twice.toml"]


def test_a_jar_that_cannot_be_fetched_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    with pytest.raises(EnvironmentProblem, match=r"org\.example:no-such-thing") as found:
        begin(project)
    assert "twice doctor" in found.value.next_step


def test_a_ledger_on_one_disk_is_refused_for_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "twice.toml"
    file.write_text('[profiles.default.spark]\n"spark.master" = "yarn"\n')
    with pytest.raises(ConfigError, match="a file on one machine"):
        begin(file)
    assert [file.name for file in tmp_path.iterdir()] == ["twice.toml"]
