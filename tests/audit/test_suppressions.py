"""`twice: ok CODE because …`: with a reason it holds, without one it does not."""

from __future__ import annotations

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
