"""Which files are read, what they are called, and what is known of them from before."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from twice.audit import cache, running
from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig
from twice.cli.app import run_command

UNSAFE = 'rows = spark.table("raw.x")\nrows.write.mode("append").saveAsTable("core.orders")\n'
SAFE = UNSAFE.replace("append", "overwrite")
SETTINGS = '[tool.twice.audit]\nignore = ["TW402"]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = run_command(["audit", *(str(one) for one in arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def write(name, text=UNSAFE):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(*arguments):
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *options, *arguments], check=True, capture_output=True)


def found(call, *arguments):
    return [
        (one["path"], one["line"], one["code"])
        for one in json.loads(call(*arguments, "--format", "json")[1])["findings"]
    ]


def test_a_folder_called_test_above_the_given_one_says_nothing(call, folder):
    write("test/repo/jobs/a.py")
    assert found(call, folder / "test/repo/jobs") == [("test/repo/jobs/a.py", 2, "TW301")]
    assert found(call, "test/repo/jobs/a.py") == [("test/repo/jobs/a.py", 2, "TW301")]


def test_tests_of_a_project_are_counted_and_not_judged(call):
    write("project/tests/a.py")
    write("project/test_b.py")
    write("project/c.py", SAFE)
    code, out, err = call("project")
    assert (code, out) == (0, "")
    assert "nothing found in 3 files; 2 test files not judged" in err
    write("project/pyproject.toml", SETTINGS)
    assert "1 test file not judged" in call("project/tests/a.py")[2]


def test_the_cache_remembers_who_was_judged(call):
    write("tests/jobs/a.py")
    assert found(call, ".") == []
    assert len(found(call, "tests/jobs")) == 1
    assert found(call, ".") == []


def test_in_a_working_tree_names_count_from_its_top(call):
    git("init", "-q")
    write("tests/helpers.py")
    assert found(call, "tests/helpers.py") == []


def test_a_file_that_is_given_twice_is_read_and_repaired_once(call, folder):
    text = "CREATE TABLE b (id INT);\nDELETE FROM b;\nINSERT INTO b SELECT id FROM a;\n"
    file = write("jobs/a.sql", text)
    Path("jobs/link.sql").symlink_to(file.resolve())
    select = ["--select", "TW314", "--dialect", "spark"]
    assert len(found(call, "jobs", "jobs/a.sql", folder / "jobs/a.sql", *select)) == 1
    assert "repaired 1 in 1 files" in call("jobs", "jobs/a.sql", *select, "--fix")[2]
    assert file.read_text() == text.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")


def test_only_findings_that_are_shown_are_repaired(call):
    table = "CREATE TABLE {0} (id INT);\nDELETE FROM {0};\nINSERT INTO {0} SELECT id FROM a;\n"
    select = ["--select", "TW314", "--dialect", "spark"]
    git("init", "-q")
    file = write("a.sql", table.format("old"))
    git("add", ".")
    git("commit", "-qm", "start")
    call("a.sql", *select, "--write-baseline", "known.json")
    expected = table.format("old") + table.format("new").replace("TABLE", "TABLE IF NOT EXISTS")
    for shown in (["--diff", "HEAD"], ["--baseline", "known.json"]):
        file.write_text(table.format("old") + table.format("new"))
        call("a.sql", *select, "--fix", *shown)
        assert file.read_text() == expected


def test_what_is_no_job_is_left_out_with_a_word_when_several_are_given(call):
    write("a.py", SAFE)
    write("stubs.pyi", "x: int\n")
    code, _, err = call("a.py", "stubs.pyi")
    assert code == 0
    assert "left out stubs.pyi" in err
    assert call("stubs.pyi")[0] == 2


def test_a_script_without_an_ending_is_read_by_its_first_line(call):
    write("runjob", "#!/usr/bin/env python3\n" + UNSAFE)
    write("Makefile", "all:\n")
    assert found(call, "runjob") == [("runjob", 3, "TW301")]
    assert call("Makefile")[0] == 2


def test_a_pipe_is_no_file(call):
    os.mkfifo("pipe.py")
    code, _, err = call("pipe.py")
    assert code == 2
    assert "pipe.py is neither a file nor a folder" in err


def test_a_folder_that_cannot_be_read_does_not_end_the_audit(call, folder):
    write("jobs/a.py")
    os.chdir("jobs")
    for _ in range(20):  # so deep that its name is longer than any name may be
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    os.chdir(folder)
    findings = found(call, "jobs")
    assert ("jobs/a.py", 2, "TW301") in findings
    assert [code for path, _, code in findings if path != "jobs/a.py"] == ["TW000"]


def test_paths_are_shown_from_where_one_stands_and_settings_are_the_nearest(call, monkeypatch):
    write("sub/pyproject.toml", SETTINGS.replace("TW402", "TW3"))
    write("sub/a.py")
    write("b.py")
    assert found(call, "sub", "b.py") == [("b.py", 2, "TW301")]
    assert found(call, ".", "sub") == [("b.py", 2, "TW301")]
    write("sub/pyproject.toml", SETTINGS)
    assert found(call, "sub", "b.py") == [("b.py", 2, "TW301"), ("sub/a.py", 2, "TW301")]
    assert "file=sub/a.py," in call("sub", "b.py", "--format", "github")[1]
    git("init", "-q")
    monkeypatch.chdir("sub")
    assert found(call, ".") == [("a.py", 2, "TW301")]
    assert "file=sub/a.py," in call(".", "--format", "github")[1]
    assert '"uri": "sub/a.py"' in call(".", "--format", "sarif")[1]


def test_a_baseline_is_the_same_from_every_folder(call, monkeypatch):
    write("jobs/a.py")
    call("jobs", "--write-baseline", "known.json")
    monkeypatch.chdir("jobs")
    assert call(".", "--baseline", "../known.json")[0] == 0


def test_a_baseline_knows_a_file_by_its_lines_after_it_was_renamed(call):
    file = write("jobs/a.py")
    call("jobs", "--write-baseline", "known.json")
    file.rename("jobs/b.py")
    code, _, err = call("jobs", "--baseline", "known.json")
    assert code == 0
    assert "no longer needed" not in err
    write("jobs/c.py")
    assert found(call, "jobs", "--baseline", "known.json") == [("jobs/c.py", 2, "TW301")]


def test_entries_of_files_that_are_not_audited_are_still_needed(call):
    write("jobs/a.py")
    write("jobs/b.py")
    call("jobs", "--write-baseline", "known.json")
    assert "no longer needed" not in call("jobs/a.py", "--baseline", "known.json")[2]
    Path("jobs/b.py").unlink()
    assert "1 of its entries is no longer needed" in call("jobs", "--baseline", "known.json")[2]


def test_two_findings_of_one_code_on_a_line_are_both_told_and_are_one_line_of_a_baseline(call):
    one = 'spark.table("x").write.mode("append").saveAsTable("core.{}")'
    write("a.py", f"{one.format('orders')}; {one.format('items')}\n")
    assert [line for _, line, _ in found(call, "a.py")] == [1, 1]
    call("a.py", "--write-baseline", "known.json")
    assert json.loads(Path("known.json").read_text())["findings"][0]["count"] == 1
    assert call("a.py", "--baseline", "known.json")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--statistics", "--format", "sarif"], "--statistics has no sarif form"),
        (["--statistics", "--format", "junit"], "--statistics has no junit form"),
        (["--statistics", "--rank"], "ask for one of them"),
    ],
)
def test_forms_that_do_not_exist_are_exit_2(call, arguments, says):
    write("a.py")
    code, _, err = call("a.py", *arguments)
    assert code == 2
    assert says in err


def test_what_took_too_long_is_tried_again(folder, monkeypatch):
    file = write("a.py", UNSAFE + "x = 1\n" * 3000)
    config = AuditConfig(root=folder)
    monkeypatch.setattr(running, "SECONDS_PER_FILE", 0.001)
    assert [one.code for one in running.audit_files([file], config).findings] == ["TW000"]
    monkeypatch.setattr(running, "SECONDS_PER_FILE", 20)
    assert [one.code for one in running.audit_files([file], config).findings] == ["TW301"]


def test_the_cache_is_of_one_parser_and_one_python(monkeypatch):
    before = cache.rules_fingerprint()
    monkeypatch.setattr("sys.version", "3.99")
    other = cache.rules_fingerprint()
    monkeypatch.setattr(cache, "version", lambda name: f"{name} 99")
    assert len({before, other, cache.rules_fingerprint()}) == 3


def test_a_text_is_a_test_if_one_says_so():
    assert audit_text("jobs/a.py", UNSAFE, AuditConfig(), test=True).findings == ()
    assert audit_text("tests/a.py", UNSAFE, AuditConfig(), test=False).findings
