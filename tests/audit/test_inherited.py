"""S19, S23, S41: the unsafe examples are found with the right codes, the shop is clean, and a fleet is ranked."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.audit.api import Part, audit
from twice.audit.config import AuditConfig
from twice.audit.findings import Severity
from twice.audit.output import fleet as pages
from twice.audit.ranking import Fleet, rank

ROOT = Path(__file__).parents[2]
CONFIG = AuditConfig(root=ROOT)
# What each unsafe example is about, as its docstring says.
UNSAFE = {
    "append.py": {"TW301": [29, 32]},
    "foreach_batch.py": {"TW701": [33]},
    "row_number.py": {"TW606": [30]},
    "sequence.py": {"TW203": [23]},
    "unversioned_merge.py": {"TW404": [34], "TW604": [29]},
    "wall_clock.py": {"TW101": [25, 29], "TW102": [31]},
}


def _found(name):
    outcome = audit([Part([ROOT / "examples" / "unsafe" / name], CONFIG)], use_cache=False)
    return outcome.summary.findings


@pytest.mark.parametrize("name", sorted(UNSAFE))
def test_s41_every_unsafe_example_is_found_with_its_code(name):
    found = _found(name)
    for code, lines in UNSAFE[name].items():
        assert [one.line for one in found if one.code == code] == lines, [f"{one.line} {one.code}" for one in found]


def test_s19_the_clock_is_found_in_the_source_where_the_filter_asks_it():
    found = [one for one in _found("wall_clock.py") if one.code == "TW101"]
    assert "current_date()" in found[-1].source
    assert "ingestion_date" in found[-1].message
    assert "args.date" in found[-1].instead


def test_s19_an_audit_column_is_only_an_info():
    (found,) = [one for one in _found("wall_clock.py") if one.code == "TW102"]
    assert found.severity is Severity.INFO


def test_s23_keys_from_a_counter_and_ties_are_found_in_the_source():
    assert [one.code for one in _found("sequence.py")] == ["TW203"]
    assert [one.code for one in _found("row_number.py")] == ["TW606"]


def test_s41_the_shop_is_clean():
    outcome = audit([Part([ROOT / "examples" / "shop", ROOT / "examples" / "payments_api"], CONFIG)], use_cache=False)
    assert [f"{one.path}:{one.line} {one.code} {one.message}" for one in outcome.summary.findings] == []


SAFE = """
from pyspark.sql import functions as F

def main(spark, day):
    rows = spark.table("raw.orders").where(F.col("order_date") == F.lit(day))
    rows.writeTo("core.orders_{n}").overwritePartitions()
"""
APPEND = """
from pyspark.sql import functions as F

def main(spark, day):
    rows = spark.table("raw.orders").where(F.col("order_date") == F.lit(day))
    rows.write.mode("append").saveAsTable("core.orders_{n}")
"""
RETRIED = """
from datetime import datetime
from airflow import DAG
from airflow.providers.postgres.operators.postgres import PostgresOperator

args = {{"retries": 3}}
with DAG("d{n}", start_date=datetime(2024, 1, 1), schedule="@hourly", default_args=args, catchup=False) as dag:
    sql = "INSERT INTO mart.sales_{n} SELECT * FROM raw.sales WHERE day = '{{{{ ds }}}}'"
    load = PostgresOperator(task_id="load", sql=sql)
"""


def test_s41_400_inherited_jobs_are_ranked_by_risk_on_one_page(tmp_path):
    for number in range(400):
        text = RETRIED if number % 40 == 0 else APPEND if number % 4 == 0 else SAFE
        (tmp_path / f"job_{number:03}.py").write_text(text.format(n=number))
    outcome = audit([Part([tmp_path], AuditConfig(root=tmp_path))], use_cache=False)
    ranked = Fleet(rank(outcome.audited.results))
    assert len(ranked.jobs) == 400
    assert ranked.unsafe == 100
    assert ranked.clean == 300
    assert ranked.retried_and_unsafe == 10
    # An hourly job that is retried three times does more harm than the same append without either.
    assert {job.path for job in ranked.jobs[:10]} == {f"job_{number:03}.py" for number in range(0, 400, 40)}
    markdown, html = pages.as_markdown(ranked), pages.as_html(ranked)
    for text in (markdown, html):
        assert "100 of 400 jobs corrupt data when they run twice" in text
        assert "10 of these are retried automatically" in text
        assert "job_000.py" in text
    assert html.startswith("<!doctype html>")
    assert "http" not in html.replace("https://www.w3.org", ""), "the page needs nothing beside it"
