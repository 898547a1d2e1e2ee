"""The way into the JVM: in one module, and a session that has none is refused before anything is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkAttributeError

import twice
from twice.config import load
from twice.content import gateway
from twice.errors import EnvironmentProblem

SOURCES = Path(twice.__file__).parent
# What PySpark keeps private of its sessions, contexts and DataFrames.
PRIVATE = re.compile(r"\._(?:jvm|jdf|jsparkSession|jsc|jconf|jo|gateway|gateway_client)\b")


class Connected:
    """A session of Spark Connect, as PySpark answers for it."""

    def __getattr__(self, name: str) -> object:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})


def test_what_pyspark_keeps_private_is_used_in_no_module_but_one():
    users = [file for file in SOURCES.rglob("*.py") if PRIVATE.search(file.read_text())]
    assert users == []
    assert '"_jvm"' in Path(gateway.__file__).read_text()
    assert [file for file in SOURCES.rglob("*.py") if '"_jvm"' in file.read_text()] == [Path(gateway.__file__)]


@pytest.mark.parametrize(
    "ask", [gateway.require, gateway.java_session, gateway.java_context, gateway.java_rows, gateway.hadoop_settings]
)
def test_a_session_of_spark_connect_is_refused_in_the_same_words_wherever_java_is_needed(ask):
    with pytest.raises(EnvironmentProblem, match="one of Spark Connect has none here") as refused:
        ask(Connected())
    assert refused.value.unchanged
    assert "SPARK_REMOTE" in refused.value.next_step


def test_a_run_in_a_session_of_spark_connect_is_refused_before_the_ledger_is_opened(tmp_path):
    shop = twice.Pipeline("shop", grain=twice.Day)
    facts = twice.Table("lake.a.facts", partition=twice.Day("d"), write=twice.Overwrite())
    shop.sql("facts", reads={}, writes=facts, query="select cast(:window_start as date) d")
    config = load(start=tmp_path)
    with pytest.raises(EnvironmentProblem, match="a Spark session with a JVM beside this process"):
        twice.run(shop, "2026-04-25", spark=Connected(), config=config)
    assert list(tmp_path.iterdir()) == []
