"""Many processes, one file."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest

from twice.errors import ScopeHeld
from twice.ledger import open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

HAMMER = """
import json, random, sys, time
from datetime import datetime, timedelta, timezone
from twice.errors import ScopeHeld
from twice.ledger import open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

seed = int(sys.argv[2])
random.seed(seed)
ledger = open_ledger(sys.argv[1])
start = datetime(2026, 1, 1, tzinfo=timezone.utc)
done = 0
while done < 25:
    first = random.randrange(6)
    last = random.randrange(first + 1, 7)
    tenant = random.choice([{}, {"tenant": "a"}, {"tenant": "b"}])
    scope = Scope.of(Window(start + timedelta(days=first), start + timedelta(days=last)), tenant)
    try:
        claim = ledger.claim("lake.t", [scope], ttl=timedelta(seconds=60))
    except ScopeHeld:
        time.sleep(0.005)
        continue
    since = time.monotonic()
    time.sleep(random.random() * 0.004)
    until = time.monotonic()
    ledger.release(claim)
    done += 1
    print(json.dumps([claim.token, first, last, tenant.get("tenant"), since, until]))
"""


@pytest.mark.crash
def test_no_two_processes_ever_hold_overlapping_scopes(quick_dir):
    url = f"sqlite:///{quick_dir}/ledger.db"
    # No ledger yet: the eight also race to create it.
    children = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, url, str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(8)
    ]
    results = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 8, [err for _, err in results]
    holds = [json.loads(line) for out, _ in results for line in out.splitlines()]
    assert len(holds) == 200
    assert len({hold[0] for hold in holds}) == 200
    for one, a in enumerate(holds):
        for b in holds[one + 1 :]:
            same_days = a[1] < b[2] and b[1] < a[2]
            same_tenant = None in (a[3], b[3]) or a[3] == b[3]
            same_time = a[4] < b[5] and b[4] < a[5]
            assert not (same_days and same_tenant and same_time), (a, b)
    # Tokens were given in the order of the claims: of two that exclude each other the later has the greater.
    held = sorted(hold for hold in holds if hold[3] is None and hold[1] == 0)
    assert [hold[4] for hold in held] == sorted(hold[4] for hold in held)
    assert open_ledger(url, create=False).leases() == []


def test_two_processes_open_a_fresh_ledger_at_the_same_moment(tmp_path):
    opening = (
        "import sys, time; from twice.ledger import open_ledger; from alembic import command\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
        "print(len(open_ledger(sys.argv[1]).runs()))"
    )
    at = datetime.now(timezone.utc).timestamp() + 2
    url = f"sqlite:///{tmp_path}/new/place/ledger.db"
    children = [
        subprocess.Popen([sys.executable, "-c", opening, url, str(at)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [child.communicate(timeout=60)[0].strip() for child in children] == ["0"] * 3


def test_threads_share_one_ledger_and_open_new_ones(quick_dir):
    day = Scope(Window(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc)))
    shared = open_ledger(f"sqlite:///{quick_dir}/ledger.db")
    won, problems = [], []

    def race(number):
        try:
            open_ledger(f"sqlite:///{quick_dir}/own-{number}.db").start_run("shop", day)
            won.append(shared.claim("lake.t", [day], ttl=timedelta(minutes=1)))
        except ScopeHeld:
            pass
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(won) == 1


def test_a_ledger_survives_a_fork(quick_dir):
    ledger = open_ledger(f"sqlite:///{quick_dir}/ledger.db")
    ledger.start_run("shop", Scope(None))
    child = multiprocessing.get_context("fork").Process(
        target=lambda: ledger.start_run("shop", Scope(None), command="child")
    )
    child.start()
    ledger.start_run("shop", Scope(None))
    child.join(30)
    assert child.exitcode == 0
    assert len(ledger.runs()) == 3
