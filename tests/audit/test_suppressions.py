"""`twice: ok CODE because …`: with a reason it holds, without one it does not."""

from __future__ import annotations

import json

import pytest

from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig

APPEND = 'spark.table("raw.x").write.mode("append").saveAsTable("core.orders")'


def codes(path, text, **options):
    return [(one.code, one.line) for one in audit_text(path, text, AuditConfig(**options)).findings]


def test_without_a_comment_it_is_found():
    assert codes("job.py", APPEND) == [("TW301", 1)]


@pytest.mark.parametrize(
    "text",
    [
        f"{APPEND}  # twice: ok TW301 because the table is an event log",
        f"# twice: ok TW301 because the table is an event log\n{APPEND}",
        f"# twice: ok TW301, TW606 because the table is an event log\n# and has a reader\n{APPEND}".replace(
            ", TW606", ""
        ),
    ],
)
def test_a_comment_with_a_reason_accepts_the_finding(text):
    result = audit_text("job.py", text, AuditConfig())
    assert [one.code for one in result.findings] == []
    assert [one.code for one in result.suppressed] == ["TW301"]


def test_in_sql_the_comment_begins_with_two_dashes():
    assert codes("a.sql", "-- twice: ok TW301 because readers count distinct ids\nINSERT INTO t SELECT * FROM s") == []


def test_in_sql_inside_python_too():
    text = (
        'spark.sql("""\n  -- twice: ok TW301 because readers count distinct ids\n  INSERT INTO t SELECT * FROM s\n""")'
    )
    assert codes("job.py", text) == []


def test_without_a_reason_it_accepts_nothing():
    assert codes("job.py", f"{APPEND}  # twice: ok TW301") == [("TW301", 1), ("TW901", 1)]


def test_because_alone_is_no_reason():
    assert codes("job.py", f"{APPEND}  # twice: ok TW301 because …") == [("TW301", 1), ("TW901", 1)]


def test_another_code_accepts_nothing_and_is_told_as_unused():
    assert codes("job.py", f"{APPEND}  # twice: ok TW101 because I say so") == [("TW301", 1), ("TW902", 1)]


def test_an_unknown_code_is_told():
    assert codes("job.py", f"{APPEND}  # twice: ok TW999 because I say so") == [("TW301", 1), ("TW903", 1)]


def test_a_comment_without_a_code_is_told():
    assert codes("job.py", f"{APPEND}  # twice: ok because I say so") == [("TW301", 1), ("TW903", 1)]


def test_a_docstring_suppresses_nothing():
    text = f'"""Write it like this:\n# twice: ok TW301 because of a reason\n"""\n{APPEND}'
    assert codes("job.py", text) == [("TW301", 4)]


def test_what_is_not_selected_is_not_unused():
    assert codes("job.py", f"{APPEND}  # twice: ok TW101 because I say so", ignore=("TW101",)) == [("TW301", 1)]


CHAIN = '(spark.table("a")\n   .write\n   .mode("append")\n   .saveAsTable("core.b"))'
INSERT = "INSERT INTO core.b\nSELECT * FROM a\nWHERE x = 1"
MAGIC = "\n# MAGIC ".join(
    ["# Databricks notebook source", "%sql", "-- twice: ok TW301 because of a reason", *INSERT.split("\n")]
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.py", f"# twice: ok TW301 because of a reason\n{CHAIN}\n"),
        ("job.py", f"{CHAIN}  # twice: ok TW301 because of a reason\n"),
        ("job.sql", f"{INSERT}; -- twice: ok TW301 because of a reason\n"),
        ("job.sql", f"SELECT 1;\n{INSERT}\n-- twice: ok TW301 because of a reason\nAND y = 2;\n"),
        ("job.sql", f"SELECT 'it''s', '\\';\n/* twice: ok TW301 because of a reason */\n{INSERT};\n"),
        ("job.py", MAGIC),
    ],
    ids=["above a chain", "below a chain", "end of SQL", "inside SQL", "block", "exported"],
)
def test_a_comment_speaks_for_its_whole_statement(path, text):
    result = audit_text(path, text, AuditConfig(select=("TW3", "TW9")))
    assert [one.code for one in result.findings] == []
    assert [one.code for one in result.suppressed] == ["TW301"]


def test_a_comment_on_a_line_with_a_finding_speaks_for_that_line_alone():
    text = (
        "INSERT INTO core.b\nSELECT * FROM a\n"
        "WHERE d = current_date -- twice: ok TW101 because of a reason\n  AND e = current_date;\n"
    )
    found = codes("job.sql", text, select=("TW101", "TW9"), dialect="spark")
    assert found == [("TW101", 4)]


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("job.py", f'def f():\n    """Doc.\n\n    -- twice: ok TW301 because of a reason\n    """\n    {APPEND}\n', 6),
        ("job.py", f"x = 'say -- twice: ok TW301 because of a reason'\n{APPEND}\n", 2),
        ("job.sql", "SELECT 'x -- twice: ok TW301 because of a reason'; INSERT INTO core.b SELECT * FROM a;\n", 1),
    ],
)
def test_a_text_suppresses_nothing_and_is_not_told_as_unused(path, text, line):
    assert codes(path, text, select=("TW3", "TW9")) == [("TW301", line)]


def notebook(*cells):
    written = [
        {"cell_type": kind, "metadata": {}, "source": [f"{line}\n" for line in source.split("\n")]}
        for kind, source in cells
    ]
    return json.dumps({"cells": written, "nbformat": 4}, indent=1)


def test_a_markdown_cell_suppresses_nothing_and_is_not_told_as_unused():
    said = "# twice: ok TW301 because of a reason"
    text = notebook(("markdown", said), ("code", APPEND))
    assert [code for code, _ in codes("n.ipynb", text, select=("TW3", "TW9"))] == ["TW301"]
    assert codes("n.ipynb", notebook(("code", f"{said}\n{CHAIN}")), select=("TW3", "TW9")) == []
    exported = f"# Databricks notebook source\n# MAGIC %md\n# MAGIC {said}\n\n# COMMAND ----------\n{APPEND}\n"
    assert codes("n.py", exported, select=("TW3", "TW9")) == [("TW301", 6)]
