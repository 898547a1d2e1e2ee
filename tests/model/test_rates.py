from __future__ import annotations

from datetime import timedelta

import pytest

from twice import Day, Overwrite, Pipeline, Table
from twice.errors import DefinitionError
from twice.model.rates import Rate


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("5/s", timedelta(milliseconds=200)),
        ("0.5/s", timedelta(seconds=2)),
        (" 30 / m ", timedelta(seconds=2)),
        ("3600/h", timedelta(seconds=1)),
    ],
)
def test_a_rate_is_the_time_between_two_calls(text, apart):
    assert Rate.parse(text).apart == apart


@pytest.mark.parametrize("text", ["", "5", "0/s", "-1/s", "5/d", "x/s", 5])
def test_what_is_not_a_rate_is_refused(text):
    with pytest.raises(DefinitionError, match='such as "5/s"'):
        Rate.parse(text)


def extract(**how):
    shop = Pipeline("shop", grain=Day)
    raw = Table("lake.raw.orders", partition=Day("d"), key=["id"], write=Overwrite())

    @shop.extract(writes=raw, **how)
    def orders(window):
        yield {}

    return shop.find("orders")


def test_an_extract_declares_its_rate_and_its_parallelism():
    step = extract(rate="5/s", parallel=2)
    assert (str(step.rate), step.parallel) == ("5/s", 2)
    assert (extract().rate, extract().parallel) == (None, None)


@pytest.mark.parametrize("parallel", [0, -1, True])
def test_parallelism_is_a_number_of_fetches(parallel):
    with pytest.raises(DefinitionError, match="1 or more"):
        extract(parallel=parallel)


def test_pace_without_a_rate_is_refused():
    shop = Pipeline("shop", grain=Day)
    raw = Table("lake.raw.orders", partition=Day("d"), key=["id"], write=Overwrite())
    with pytest.raises(DefinitionError, match="takes pace, but declares no rate"):

        @shop.extract(writes=raw)
        def orders(window, pace):
            yield {}
