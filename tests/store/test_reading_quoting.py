"""Whatever a value holds, Postgres reads it as that value, however the server is set to read backslashes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from twice.store.sql.read import reading, splitting
from twice.store.sql.read.splitting import Span

_SHARED = [HealthCheck.function_scoped_fixture]
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(scope="module")
def connection(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as found:
        yield found


@pytest.mark.parametrize("conforming", ["on", "off"])
@given(_TEXTS)
@example("it's")
@example("\\' or 1=1 --")
@example("back\\slash\\")
@example("")
@example("line\nbreak\r\ttab")
@example("%s :name ? {d '2026-01-01'} $1 ${x}")
@settings(max_examples=200, deadline=None, suppress_health_check=_SHARED)
def test_a_text_is_that_text(connection, conforming, text):
    connection.execute(f"set standard_conforming_strings = {conforming}")
    assert connection.execute(f"select {reading.text_literal(text)}").fetchone() == (text,)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from([0, 60, -210]))
@settings(max_examples=200, deadline=None, suppress_health_check=_SHARED)
def test_an_instant_is_that_instant(connection, moment, minutes):
    instant = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    micros = (instant - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    span = Span("x", instant, instant, "TIMESTAMPTZ")
    found = connection.execute(f"select (extract(epoch from {span.literal(instant)}) * 1000000)::bigint").fetchone()
    assert found == (micros,)


@given(st.integers(0, 10_000), st.integers(2, 16), st.lists(st.integers(0, 11_000), max_size=30))
def test_every_row_lies_in_exactly_one_part_wherever_it_lies(pages, parts, rows):
    split = splitting.by_place(pages, parts)
    if split is None:
        assert pages <= 1, "a table of two pages can be cut"
        return
    for row in rows:
        holding = 0
        for condition in split.conditions:
            text = condition.replace('"place"', str(row)).replace("'(", "").replace(",0)'::tid", "")
            terms = [term.split() for term in text.split(" AND ")]
            holding += all(int(a) < int(b) if sign == "<" else int(a) >= int(b) for a, sign, b in terms)
        assert holding == 1
