"""The work of an audit grows with the length of a file, not with how often its variables stand for each other."""

from __future__ import annotations

import pytest

from twice.audit import auditing
from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig
from twice.audit.expressions import Expr
from twice.audit.languages.reading import read_file

TSQL = AuditConfig(dialect="tsql")
SET_AGAIN = {
    "operator": "SET @x = @x + @x",
    "call": "SET @x = DATEADD(day, DATEDIFF(day, 0, @x), @x)",
    "case": "SET @x = CASE WHEN @x > 1 THEN @x ELSE ISNULL(@x, GETDATE()) END",
    "two variables": "SET @y = @x + @y\nSET @x = @y + @x",
    "select": "SELECT @x = @x + @y, @y = @y + @x",
    "subquery": "SET @x = (SELECT MAX(a) FROM dbo.s WHERE b > @x AND c < @x)",
}
PYTHON_AGAIN = {
    "column": "x = F.when(x > 1, x).otherwise(x)",
    "operator": "x = x + x",
    "text": "x = f'{x} {x}'",
    "added text": "x = 'a' + str(x) + f'{x}'",
}


def procedure(statement: str, times: int) -> str:
    lines = [
        "CREATE PROCEDURE dbo.load AS",
        "BEGIN",
        "DECLARE @x DATETIME = GETDATE(), @y DATETIME = GETDATE()",
        *[statement] * times,
        "INSERT INTO dbo.t SELECT a, @x AS b FROM dbo.s WHERE d > @x AND e < @y",
        "END",
    ]
    return "\n".join(lines)


def script(statement: str, times: int) -> str:
    lines = [
        "from datetime import date",
        "from pyspark.sql import functions as F",
        "x = F.current_date()" if "F." in statement or statement == "x = x + x" else "x = str(date.today())",
        *[statement] * times,
        "spark.table('s').where(F.col('d') > x).withColumn('b', F.lit(x)).write.mode('append').saveAsTable('t')",
    ]
    return "\n".join(lines)


def nodes(job) -> int:
    """Count what a rule visits that looks at every expression of a job, sub-queries included, once."""
    tops = [query for write in job.writes if write.query is not None for query in write.query.walk()]
    return sum(1 for query in tops for top in query.expressions() for _ in top.walk(into_queries=True))


@pytest.mark.parametrize("statement", SET_AGAIN.values(), ids=SET_AGAIN)
def test_a_variable_that_is_set_from_itself_does_not_multiply_the_nodes(statement):
    few = nodes(read_file("load.sql", procedure(statement, 13), dialect="tsql"))
    assert few < 3000


@pytest.mark.parametrize("statement", PYTHON_AGAIN.values(), ids=PYTHON_AGAIN)
def test_a_python_name_that_is_set_from_itself_does_not_multiply_the_nodes(statement):
    few = nodes(read_file("load.py", script(statement, 11), dialect=""))
    assert few < 3000


@pytest.mark.parametrize("statement", SET_AGAIN.values(), ids=SET_AGAIN)
def test_a_procedure_of_286_lines_is_audited_to_its_end(statement):
    codes = {one.code for one in audit_text("load.sql", procedure(statement, 281), TSQL).findings}
    assert "TW301" in codes
    assert "TW000" not in codes


@pytest.mark.parametrize("statement", [SET_AGAIN["operator"], SET_AGAIN["call"], SET_AGAIN["two variables"]])
def test_the_clock_is_still_found_behind_a_variable_that_is_too_large_to_follow(statement):
    found = audit_text("load.sql", procedure(statement, 40), TSQL).findings
    assert ("TW101", 3) in {(one.code, one.line) for one in found}


def test_a_fallback_stays_one_behind_a_variable_that_is_too_large_to_follow():
    text = procedure("SET @x = @x + @x", 12).replace("GETDATE(), @y", "COALESCE(@day, GETDATE()), @y")
    codes = {(one.code, one.line) for one in audit_text("load.sql", text, TSQL).findings if "GETDATE" in one.message}
    assert ("TW103", 3) in codes


def test_a_file_that_is_nested_too_deep_says_so(monkeypatch):
    def nested(*_: object, **__: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(auditing, "read_file", nested)
    (found,) = [one for one in audit_text("a.sql", "SELECT 1", TSQL).findings if one.code == "TW000"]
    assert "is nested too deep" in found.message
    assert "RecursionError" not in found.message


def test_an_expression_of_usual_size_is_kept_as_it_is():
    from twice.audit.classifying import bounded

    expr = Expr("op", "+", (Expr("column", "a"), Expr("literal", "1", value=1)))
    assert bounded(expr) is expr
