"""A process that works on a backfill is heard of from its first moment, and says what to do next if it is stopped."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tests.backfill.conftest import january
from twice.backfills.presence import beginning
from twice.engine.run import Runtime
from twice.errors import Interrupted
from twice.ledger import open_ledger
from twice.model.scopes import Scope

LEASE = timedelta(seconds=1)


@pytest.fixture
def runtime(tmp_path):
    """A runtime without Spark: nothing here needs a table."""
    return Runtime(None, None, open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}"), lease=LEASE)


@pytest.fixture
def backfill(runtime):
    how = {"request": {"shadow": True}, "code": {}, "parallel": 1, "ttl": LEASE}
    return runtime.ledger.backfills.start("shop", Scope(january(1, 4)), ["lake.core.facts@x"], **how)


def test_a_backfill_whose_shadows_take_long_to_begin_is_not_lost(runtime, backfill):
    with beginning(runtime, backfill):
        time.sleep(2.5)
        assert runtime.ledger.backfills.get(backfill).status == "running"


def test_ctrl_c_while_shadows_begin_says_what_to_do_next(runtime, backfill):
    with pytest.raises(Interrupted) as stopped, beginning(runtime, backfill):
        raise KeyboardInterrupt
    assert stopped.value.next_step == f"twice backfill resume {backfill}"
    assert runtime.ledger.backfills.get(backfill).status == "interrupted"


def test_what_fails_while_shadows_begin_leaves_nobody_at_work(runtime, backfill):
    with pytest.raises(OSError, match="disk"), beginning(runtime, backfill):
        raise OSError("disk")
    assert runtime.ledger.backfills.get(backfill).workers == ()
