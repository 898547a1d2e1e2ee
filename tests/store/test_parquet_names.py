"""Names of folders: whatever a tenant is called, Spark and twice write and read the same."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twice.store.parquet.names import NOTHING, escape, folder_name, moment, split, unescape

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
ODD = ["a/b", "..", ".", "50%", "%2F", "a'b\"c", "back\\slash", "Zoë\u2028☃", "line\nbreak", "a=b", "{x}[y]*?", "~"]


@given(TEXTS)
@example("%25")
@example("..")
def test_what_is_escaped_comes_back_and_is_one_part_of_a_path(text):
    name = f"tenant={escape(text)}"
    assert split(name) == ("tenant", None if escape(text) == NOTHING else text)
    assert PurePosixPath("/a", name).name == name
    assert not set(escape(text)) & set("/\\*?[]{\n")


@given(TEXTS)
def test_a_table_never_hides_and_never_takes_the_bookkeepings_name(text):
    name = folder_name(text)
    assert not name.startswith(("_", "."))
    assert "/" not in name
    assert unescape(name) == text


@pytest.mark.parametrize("name", ["data", "=x", ""])
def test_a_folder_without_a_value_is_no_partition(name):
    assert split(name) is None


def test_times_are_dates_or_instants_in_utc_and_anything_else_is_none():
    assert moment("2026-04-25", sub_day=False) == date(2026, 4, 25)
    assert moment("2026-04-25 13:15:00", sub_day=True) == datetime(2026, 4, 25, 13, 15, tzinfo=timezone.utc)
    assert moment(None, sub_day=False) is None
    assert moment("yesterday", sub_day=False) is None
    assert moment("13:15", sub_day=True) is None


@pytest.mark.spark
def test_spark_escapes_and_reads_the_same_way(spark):
    sparks = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    for text in [*ODD, *(chr(code) for code in range(1, 0x180))]:
        assert escape(text) == sparks.escapePathName(text), repr(text)
        assert unescape(escape(text)) == sparks.unescapePathName(escape(text)) == text
    assert sparks.DEFAULT_PARTITION_NAME() == NOTHING
