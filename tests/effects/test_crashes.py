"""Killed anywhere between claim, call, answer and record, each policy keeps its promise: the receiver counts."""

from __future__ import annotations

import json
import os
import random
import signal
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from tests.support.provider import Provider, provider
from twice import failpoints, hours
from twice.effects import Retry
from twice.effects.driving import Due, drive, fingerprint_of
from twice.effects.policies import Policy
from twice.effects.targets.http import Http
from twice.ledger import Subject, Wanted, open_ledger

pytestmark = pytest.mark.crash

KEYS = 4
POINTS = [point for point in failpoints.FAIL_POINTS if point.startswith("effect.")]
CALLS = ("before the call", "after the call")
POLICIES = ("retry", "skip", "reconcile")


@dataclass(frozen=True)
class Crash:
    """Where a run is killed, and at the how manieth time it gets there."""

    point: str
    at: int


@dataclass(frozen=True)
class Case:
    """Some keys of their own in a ledger, to be paid under a policy."""

    name: str
    ledger: str
    receiver: Provider
    policy: str
    parallel: int = 1


def on_unknown(policy: str, url: str) -> object:
    if policy == "skip":
        return "skip"
    return Retry(valid_for=hours(24), then="ask") if policy == "retry" else lambda key, _payload: looked_up(url, key)


def looked_up(url: str, key: str) -> object:
    try:
        with urllib.request.urlopen(f"{url}/{key}", timeout=5) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError:
        return None


def pay(case: Case, crash: Crash | None) -> None:
    """Pay all keys; end this process at the crash."""
    calls = 0

    def send(key: str) -> object:
        nonlocal calls
        calls += 1
        if crash == Crash("before the call", calls):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = Http(case.receiver.url, headers={"X-Mark": key}).send({"to": "ana"}, key=key, timeout=5)
        if crash == Crash("after the call", calls):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    text = '{"to":"ana"}'
    due = [
        Due(Wanted(Subject(case.name, "mail", business_key=str(number)), fingerprint_of(text), text), send)
        for number in range(KEYS)
    ]
    policy = Policy(on_unknown(case.policy, case.receiver.url))
    list(drive(open_ledger(case.ledger), due, policy, parallel=case.parallel))


def in_a_process(work: Callable[[], None], crash: Crash | None) -> int:
    """Do something in a process of its own; return what ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            failpoints.reset()
            if crash is not None and crash.point in POINTS:
                os.environ |= {"TWICE_FAILPOINT": f"{crash.point}:kill", "TWICE_FAILPOINT_AT": str(crash.at)}
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_schedule(case: Case, crashes: list[Crash]) -> None:
    """Run and be killed, as often as the schedule says; then run to the end, and compare with what the receiver saw."""
    for crash in crashes:
        ended = in_a_process(partial(pay, case, crash), crash)
        assert ended in (0, -signal.SIGKILL)  # 0: it was not reached any more
    assert in_a_process(partial(pay, case, None), None) == 0
    records = open_ledger(case.ledger).effects.list(pipeline=case.name)
    assert len(records) == KEYS
    made = {record.key: case.receiver.made[record.key] for record in records}
    assert sum(made.values()) == sum(case.receiver.made.values())
    if case.policy == "skip":
        assert max(made.values()) <= 1
        assert {record.state for record in records} <= {"confirmed", "unknown"}
        assert all(made[record.key] == 1 for record in records if record.state == "confirmed")
    else:
        assert set(made.values()) == {1}
        assert {record.state for record in records} == {"confirmed"}


@pytest.mark.parametrize("point", [*POINTS, *CALLS])
def test_s35_killed_at_a_point(new_url, point):
    url = new_url()
    for policy in POLICIES:
        with provider(honours_keys=policy == "retry") as receiver:
            run_schedule(Case(policy, url, receiver, policy), [Crash(point, 1)])


SEEDS = {"sqlite": range(160), "postgres": range(160, 200)}


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in range(1, 8))])
def test_random_crash_schedules(new_url, kind, part):
    url = new_url()
    with provider() as receiver:
        for seed in SEEDS[kind][part::8]:
            random_ = random.Random(seed)
            policy, parallel = random_.choice(POLICIES), random_.choice((1, 1, 3))
            points = [random_.choice((*POINTS, *CALLS)) for _ in range(random_.randint(1, 4))]
            crashes = [Crash(point, random_.randint(1, KEYS)) for point in points]
            print(f"seed {seed}: {policy}, {parallel} at once, {crashes}")
            receiver.forget()
            receiver.honours_keys = policy == "retry"
            run_schedule(Case(f"s{seed}", url, receiver, policy, parallel), crashes)


def test_two_processes_with_the_same_thousand_keys_send_a_thousand(new_url):
    def both(ledger_url: str, url: str) -> None:
        target = Http(url)
        due = [
            Due(Wanted(Subject("shop", "mail", business_key=str(number)), "f", "1"),
                lambda key: target.send(1, key=key, timeout=60))
            for number in range(1000)
        ]  # fmt: skip
        list(drive(open_ledger(ledger_url), due, Policy("skip"), parallel=8))

    url = new_url()
    open_ledger(url)
    with provider(honours_keys=False) as receiver:
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    both(url, receiver.url)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    assert len(receiver.made) == 1000
    assert set(receiver.made.values()) == {1}
