"""Finding pipelines: every way in which a project can be wrong has its sentence."""

from __future__ import annotations

import sys

import pytest

from twice import config as configuration
from twice.errors import ConfigError, DefinitionError, UsageError
from twice.loading import find_pipeline, load_pipelines

FOR = ("--for", "2026-04-25")


def test_by_name_and_by_place(project):
    config = configuration.load()
    found = find_pipeline(config, "shop")
    assert found.name == "shop"
    assert find_pipeline(config, f"{project.module}:shop") is found
    assert load_pipelines(config) == {"shop": found}


def test_in_pyproject_too(project):
    (project.folder / "twice.toml").unlink()
    (project.folder / "pyproject.toml").write_text(f'[tool.twice.pipelines]\nshop = "{project.module}:shop"\n')
    assert project.call("run", "shop", *FOR, "--explain").code == 0


def test_a_folder_below_finds_the_configuration_above(project, monkeypatch):
    (project.folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(project.folder / "deep" / "er")
    assert project.call("run", "shop", *FOR, "--explain").code == 0


BROKEN = {
    "missing import": ("\nimport not_installed_anywhere\n", "line 2: importing {module} failed: ModuleNotFoundError"),
    "syntax": ("x = 1\ndef (:\n", "line 2: importing {module} failed: SyntaxError"),
    "raises": (
        "def f():\n    raise ValueError('no luck')\nf()\n",
        "line 2: importing {module} failed: ValueError: no luck",
    ),
    "exits": ("import sys\nsys.exit('bye')\n", "line 2: importing {module} failed: SystemExit: bye"),
    "definition": ("from twice import Table\nTable('x')\n", "line 2: 'x' is not a full table name"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_error_in_the_users_module_names_the_line(project, case):
    text, sentence = BROKEN[case]
    project.code(text)
    said = project.call("run", "shop", *FOR)
    assert said.code == 2
    assert f"{project.module}.py, " + sentence.format(module=project.module) in said.err
    assert "Traceback" not in said.err
    assert not project.ledger.exists()
    assert "Traceback" in project.call("-v", "run", "shop", *FOR).err


def test_a_machine_without_spark_is_told_what_to_install(project, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    said = project.call("run", "shop", *FOR)
    assert said.code == 3
    assert "PySpark is not installed" in said.err
    assert not project.ledger.exists()
    project.code("import pyspark\n")
    monkeypatch.delitem(sys.modules, project.module)
    said = project.call("run", "shop", *FOR)
    assert said.code == 2
    assert "line 1: importing" in said.err
    assert "pip install 'twice[spark]'" in said.err


def test_a_missing_object_and_a_wrong_one(project):
    with pytest.raises(UsageError, match=r"has no 'shpo'. Did you mean shop\?"):
        find_pipeline(configuration.load(), f"{project.module}:shpo")
    with pytest.raises(UsageError, match="not_a_pipeline is a int, not a Pipeline"):
        find_pipeline(configuration.load(), f"{project.module}:not_a_pipeline")


SECOND = """
from twice import Day, Overwrite, Pipeline, Table
other = Pipeline("{name}", grain=Day)
other.sql("theirs", reads={{}}, writes=Table("{table}", partition=Day("d"), write=Overwrite()), query="select 1")
"""


def second(project, name="other", table="lake.core.facts"):
    project.code(SECOND.format(name=name, table=table), f"{project.module}_b")
    project.toml(pipelines=f'other = "{project.module}_b:other"')


def test_a_table_with_writers_in_two_pipelines_is_refused(project):
    second(project)
    for command in (["run", "shop", *FOR], ["run", "other", *FOR], ["status"], ["contract"]):
        said = project.call(*command)
        assert said.code == 2
        assert "lake.core.facts is written by the pipeline" in said.err
        assert "(step build)" in said.err
        assert "(step theirs)" in said.err
    with pytest.raises(DefinitionError):
        load_pipelines(configuration.load())


FOLLOWER = """
from twice import Day, InsertOnly, Pipeline, Table
from twice.streams import Write
other = Pipeline("other", grain=Day)
mine = Table("lake.web.clicks", key=["id"], write=InsertOnly())
@other.stream(reads=Table("lake.core.facts"), writes=mine, dedup=Write("id"))
def clicks(rows):
    return rows
"""


def test_a_stream_of_a_table_whose_rows_another_pipeline_replaces_is_refused(project):
    project.code(FOLLOWER, f"{project.module}_b")
    project.toml(pipelines=f'other = "{project.module}_b:other"')
    said = project.call("stream", "run", "other")
    assert said.code == 2
    assert "stream clicks: lake.core.facts is written with Overwrite(), and a stream reads only rows" in said.err
    assert not project.ledger.exists()


def test_two_pipelines_of_one_name_are_refused(project):
    second(project, name="shop", table="lake.x.y")
    said = project.call("run", "shop", *FOR)
    assert said.code == 2
    assert 'are both called Pipeline("shop")' in said.err


def test_one_pipeline_may_have_two_names(project):
    project.toml(pipelines=f'again = "{project.module}:shop"')
    assert project.call("run", "again", *FOR, "--explain").code == 0


def test_another_pipeline_that_cannot_be_imported_only_warns(project):
    project.toml(pipelines='broken = "no_such_module_here:x"')
    said = project.call("run", "shop", *FOR, "--explain")
    assert said.code == 0
    assert "warning: pipeline broken could not be checked" in said.err
    with pytest.raises(UsageError):
        load_pipelines(configuration.load())


def test_without_any_pipelines_the_way_to_one_is_named(project):
    (project.folder / "twice.toml").write_text("")
    said = project.call("run", "shop", *FOR)
    assert said.code == 2
    assert 'add [pipelines] shop = "module:object"' in said.err
    assert project.call("status").code == 2


def test_config_errors_are_config_errors(project):
    project.code("1 / 0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        find_pipeline(configuration.load(), "shop")
