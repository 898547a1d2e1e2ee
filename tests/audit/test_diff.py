"""`--diff BASE`: every changed line of every file, whatever it is called and holds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from twice.audit.api import Part, audit
from twice.audit.config import AuditConfig

UNSAFE = 'rows = spark.table("raw.x")\nrows.write.mode("append").saveAsTable("core.orders")\n'
SAFE = UNSAFE.replace("append", "overwrite")


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    return tmp_path


def git(*arguments):
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *options, *arguments], check=True, capture_output=True)


def commit():
    git("add", ".")
    git("commit", "-qm", "start")


def found(**options):
    outcome = audit(
        [Part([Path()], AuditConfig(root=Path.cwd()))], since="HEAD", use_cache=False, processes=1, **options
    )
    return [(one.path, one.line, one.code) for one in outcome.summary.findings]


@pytest.mark.parametrize("name", ["bücher.py", 'say "hi".py', "tab\there.py", "back\\slash.py", "a b.py", "ü\t.py"])
def test_files_with_strange_names_are_not_forgotten(name):
    file = Path(name)
    file.write_text(SAFE)
    commit()
    file.write_text(UNSAFE)
    assert [(path, line) for path, line, _ in found()] == [(name, 2)]


def test_a_source_line_that_looks_like_a_header_ends_nothing():
    file = Path("job.sql")
    file.write_text("SELECT 1;\n")
    commit()
    file.write_text("SELECT 1\n++ b/x\n;\nINSERT INTO core.b SELECT * FROM a;\n")
    assert ("job.sql", 4, "TW301") in found()


def test_a_file_in_another_encoding_disturbs_nobody():
    Path("old.sql").write_bytes("-- für\n".encode("latin-1"))
    Path("job.py").write_text(SAFE)
    commit()
    Path("old.sql").write_bytes("-- für Bücher\n".encode("latin-1"))
    Path("job.py").write_text(UNSAFE)
    assert found() == [("job.py", 2, "TW301")]


@pytest.mark.parametrize("between", ["", "\n-- now the rows\n\n"])
def test_an_insert_is_shown_when_the_delete_before_it_is_removed(between):
    file = Path("job.sql")
    insert = f"{between}INSERT INTO core.b\nSELECT * FROM a WHERE d = '${{day}}';\n"
    file.write_text(f"BEGIN;\nDELETE FROM core.b WHERE d = '${{day}}';\n{insert}COMMIT;\n")
    commit()
    assert found() == []
    file.write_text(f"BEGIN;\n{insert}COMMIT;\n")
    assert [code for _, _, code in found()] == ["TW301"]
