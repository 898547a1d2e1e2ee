"""A whole backfill sends nothing unless it is told to; what it suppressed can be sent later."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.backfill.conftest import Shop, day
from twice import hours
from twice.backfills.shadows import ShadowOf
from twice.effects import Retry

pytestmark = pytest.mark.spark


class Channel:
    """A receiver that remembers what it got."""

    honours_keys = True

    def __init__(self) -> None:
        self.got: list[str] = []

    def send(self, payload: Any, *, key: str, timeout: float) -> dict[str, str]:
        self.got.append(payload)
        return {"key": key}


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def posting(lab, channel) -> Shop:
    """The shop, with a post about each day's sums."""
    shop = Shop(lab)
    shop.land(3)

    @shop.pipeline.effect(after=shop.sums, to=channel, on_unknown=Retry(valid_for=hours(24), then="ask"))
    def post(window: Any) -> str:
        return f"{window.start:%Y-%m-%d}"

    return shop


def states(shop: Shop) -> Counter[str]:
    return Counter(record.state for record in shop.lab.ledger.effects.list())


@pytest.mark.full
def test_a_backfill_suppresses_sends_later_and_at_once(posting, channel):
    posting.lab.run(posting.pipeline, day(1))
    assert channel.got == [day(1)]
    assert posting.backfill(1, 4).status == "done"
    assert (channel.got, states(posting)) == ([day(1)], {"confirmed": 1, "suppressed": 2})
    # A later run of the day leaves it so
    posting.lab.run(posting.pipeline, day(2))
    assert channel.got == [day(1)]
    # Asked for, what was suppressed goes out, and what was sent does not
    assert posting.backfill(1, 4, only=("all",), effects=True).status == "done"
    assert (sorted(channel.got), states(posting)) == ([day(1), day(2), day(3)], {"confirmed": 3})
    assert posting.backfill(1, 4, only=("all",), effects=True).status == "done"
    assert len(channel.got) == 3


@pytest.mark.full
def test_a_shadow_sends_nothing_and_its_swap_neither(posting, channel):
    summary = posting.backfill(1, 4, shadow=True)
    assert (summary.status, channel.got, states(posting)) == ("done", [], {})
    ShadowOf(posting.runtime, posting.pipeline, posting.lab.ledger.backfills.get(summary.backfill)).swap()
    assert (channel.got, states(posting)) == ([], {"suppressed": 3})
    posting.lab.run(posting.pipeline, day(2))
    assert channel.got == []
