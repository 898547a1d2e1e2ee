"""[tool.twice.audit] and [audit]: what is looked for, where, and how bad it is."""

from __future__ import annotations

import pytest

from twice.audit.api import Part, audit
from twice.audit.config import AuditConfig, load
from twice.audit.findings import Severity
from twice.config import find
from twice.errors import ConfigError, UsageError

APPEND = "INSERT INTO core.orders SELECT * FROM raw.orders;\n"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.sql").write_text(APPEND)
    (tmp_path / "jobs" / "old").mkdir()
    (tmp_path / "jobs" / "old" / "b.sql").write_text(APPEND)
    return tmp_path


def found(project):
    config = load(project / "jobs")
    outcome = audit([Part([project / "jobs"], config)], use_cache=False)
    return [(one.path, one.code, str(one.severity)) for one in outcome.summary.findings]


def test_without_settings_everything_is_looked_for(project):
    assert [code for _, code, _ in found(project)] == ["TW301", "TW301"]


def test_exclude_per_file_ignores_and_severity(project):
    (project / "pyproject.toml").write_text(
        '[tool.twice.audit]\nexclude = ["jobs/old"]\n[tool.twice.audit.severity]\nTW301 = "info"\n'
    )
    assert found(project) == [("jobs/a.sql", "TW301", "info")]
    (project / "pyproject.toml").write_text('[tool.twice.audit.per-file-ignores]\n"jobs/old/**" = ["TW3"]\n')
    assert found(project) == [("jobs/a.sql", "TW301", "error")]


def test_twice_toml_comes_first(project):
    (project / "pyproject.toml").write_text('[tool.twice.audit]\nselect = ["TW1"]\n')
    (project / "twice.toml").write_text('[audit]\nselect = ["TW3"]\nignore = ["TW305"]\nfail-on = "error"\n')
    config = load(project / "jobs")
    assert (config.select, config.ignore, config.fail_on) == (("TW3",), ("TW305",), Severity.ERROR)


def test_the_longer_word_wins():
    config = AuditConfig(select=("TW", "TW301"), ignore=("TW3",))
    assert config.wants("TW301", "a.sql")
    assert not config.wants("TW302", "a.sql")
    assert config.wants("TW101", "a.sql")


def test_dialects_by_folder(project):
    (project / "twice.toml").write_text('[audit.dialects]\n"jobs/old" = "snowflake"\n')
    config = load(project)
    assert (config.dialect_of("jobs/old/b.sql"), config.dialect_of("jobs/a.sql")) == ("snowflake", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[audit]\nselct = []\n", "has selct, which twice does not know"),
        ('[audit]\nselect = ["TW999"]\n', "neither the code of a rule"),
        ('[audit]\nselect = "XX"\n', "neither the code of a rule"),
        ("[audit]\nselect = [1]\n", "must be a list of texts"),
        ('[audit]\ndialect = "klingon"\n', "is not a dialect"),
        ('[audit]\nfail-on = "panic"\n', "is not a severity"),
        ("[audit]\nseverity = 3\n", "must be a table"),
        ("audit = 3\n", "must be a table"),
        ("[audit\n", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_name(project, text, says):
    (project / "twice.toml").write_text(text)
    with pytest.raises((ConfigError, UsageError), match=r"audit|twice\.toml") as caught:
        load(project)
    assert says in str(caught.value)


def test_settings_of_the_audit_alone_make_no_project_of_pipelines(project):
    (project / "pyproject.toml").write_text('[tool.twice.audit]\nselect = ["TW"]\n')
    assert find(project / "jobs") is None
