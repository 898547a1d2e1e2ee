"""A claim is given back, also when Spark is gone; a mistake in twice itself is not hidden by that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twice.engine.attempt.claiming import give_up
from twice.engine.spark.metrics import measured


class FakeLeases:
    def __init__(self):
        self.taken = []

    def take_over(self, table, token):
        self.taken.append((table, token))


def job(raised: Exception, handle: object):
    def fence(*_: object, own: bool) -> None:
        raise raised

    session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=handle))
    return SimpleNamespace(
        store=SimpleNamespace(fence=fence),
        session=session,
        step=SimpleNamespace(writes="t"),
        ledger=SimpleNamespace(leases=FakeLeases()),
        group="g",
    )


CLAIM = SimpleNamespace(table="t", token=7)


def test_a_claim_is_abandoned_when_its_spark_was_stopped():
    gone = job(AttributeError("'NoneType' object has no attribute 'sc'"), handle=None)
    give_up(gone, CLAIM)
    assert gone.ledger.leases.taken == [("t", 7)]


def test_a_claim_is_abandoned_when_the_store_cannot_be_reached():
    unreachable = job(OSError("no route to host"), handle=object())
    give_up(unreachable, CLAIM)
    assert unreachable.ledger.leases.taken == [("t", 7)]


def test_a_mistake_in_a_store_is_raised_while_a_claim_is_given_up():
    mistaken = job(AttributeError("'Store' object has no attribute 'tokn'"), handle=object())
    with pytest.raises(AttributeError, match="tokn"):
        give_up(mistaken, CLAIM)


def test_the_cost_of_an_attempt_is_not_known_once_spark_was_stopped():
    assert measured(job(OSError(), handle=None)) == {}


def test_a_mistake_while_the_cost_is_measured_is_raised():
    with pytest.raises(AttributeError):
        measured(job(OSError(), handle=object()))  # an object without sc()
