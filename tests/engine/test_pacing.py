"""Waiting for a source: at its pace, and not for nothing."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from twice.engine.attempt.compute import wait_for_turn
from twice.errors import Interrupted
from twice.ledger import open_ledger
from twice.model.rates import Rate


def test_whoever_waits_for_a_source_stops_when_nobody_wants_the_answer(tmp_path):
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    step = SimpleNamespace(pipeline="shop", name="fetch", rate=Rate.parse("1/m"))
    began = time.monotonic()
    job = SimpleNamespace(ledger=ledger, step=step, abandoned=lambda: time.monotonic() > began + 1)
    # The first call goes out at once; the next one would wait for a minute
    wait_for_turn(job)
    assert time.monotonic() < began + 1
    with pytest.raises(Interrupted, match="stopped before its source was called"):
        wait_for_turn(job)
    assert time.monotonic() < began + 10
