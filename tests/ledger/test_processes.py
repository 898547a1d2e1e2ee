"""Many processes, one ledger."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from tests.ledger import hammer
from tests.support.project import FULL
from twice.errors import ScopeHeld
from twice.ledger import open_ledger
from twice.ledger.db.schema import claims
from twice.model.scopes import Scope
from twice.model.windows import Window


@pytest.fixture
def history(kind, new_url, quick_dir):
    """What eight processes with many overlapping claims each were told, and the ledger afterwards."""
    url = new_url()
    return hammer.hammer(url, quick_dir, claims=200 if FULL else 80), open_ledger(url, create=False)


@pytest.mark.crash
@pytest.mark.slow(reason="eight processes work on one ledger for seconds")
def test_eight_processes_never_hold_a_scope_twice_and_lose_no_claim(history):
    events, ledger = history
    holds = hammer.check(events, ledger.leases.list())
    # The history is one worth checking: refusals, renewals, and claims that others took over.
    kinds = {event["what"] for event in events}
    assert kinds >= {"granted", "refused", "renewed", "released", "settled"}
    assert len(holds) > 80
    with ledger.database.read() as connection:
        stored = dict(connection.execute(sa.select(claims.c.token, claims.c.state)).all())
    assert stored.keys() == holds.keys()
    for token, hold in holds.items():
        expected = {"released"} if hold.released else {"settled"} if hold.settled else {"live", "taken"}
        assert stored[token] in expected


def event(what, asked, told, token=1, place=(0, 1, None), offered=()):
    return {"what": what, "asked": asked, "told": told, "token": token, "place": place, "offered": list(offered)}


@pytest.mark.parametrize(
    "lie",
    [
        # Two at once; a token twice; a claim that is gone; a claim taken from its holder; a refusal for nothing.
        [event("granted", 0, 1), event("granted", 2, 3, token=2), event("released", 4, 5)],
        [event("granted", 0, 1), event("released", 2, 3), event("granted", 4, 5)],
        [event("granted", 0, 1, token=2), event("released", 2, 3, token=2)],
        [event("granted", 0, 1), event("granted", 2, 3, 2, offered=[1]), event("renewed", 4, 5)],
        [event("granted", 0, 1), event("released", 2, 3), event("refused", 4, 5)],
        [event("granted", 0, 1)],
    ],
)
def test_the_check_of_a_history_finds_what_is_wrong(lie):
    with pytest.raises(AssertionError):
        hammer.check(lie, [])


def test_three_processes_open_a_fresh_ledger_at_the_same_moment(new_url):
    opening = (
        "import sys, time; from twice.ledger import open_ledger; from alembic import command\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
        "print(len(open_ledger(sys.argv[1]).runs.list()))"
    )
    at = datetime.now(timezone.utc).timestamp() + 2
    url = new_url()
    children = [
        subprocess.Popen([sys.executable, "-c", opening, url, str(at)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [child.communicate(timeout=60)[0].strip() for child in children] == ["0"] * 3


def test_threads_share_one_ledger_and_open_new_ones(new_url):
    day = Scope(Window(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc)))
    shared = open_ledger(new_url())
    won, problems = [], []

    def race():
        try:
            open_ledger(new_url()).runs.start("shop", day)
            won.append(shared.leases.claim("lake.t", [day], ttl=timedelta(minutes=1)))
        except ScopeHeld:
            pass
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(won) == 1


def test_a_ledger_survives_a_fork(new_url):
    ledger = open_ledger(new_url())
    ledger.runs.start("shop", Scope(None))
    child = multiprocessing.get_context("fork").Process(
        target=lambda: ledger.runs.start("shop", Scope(None), command="child")
    )
    child.start()
    ledger.runs.start("shop", Scope(None))
    child.join(30)
    assert child.exitcode == 0
    assert len(ledger.runs.list()) == 3
