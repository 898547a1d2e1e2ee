"""Eight processes that claim overlapping scopes, and the proof from their history that no scope was held twice.

Every process appends what it asked, what it was told, and when it asked and was told, by the machine's monotonic
clock. The ledger's order is that of the tokens. A claim is granted at some moment between question and answer.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from twice.errors import ScopeHeld
from twice.ledger import open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

TABLE = "lake.hammered"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LONG, SHORT = timedelta(seconds=300), timedelta(milliseconds=1)


def scope_of(first, last, tenant):
    window = Window(START + timedelta(days=first), START + timedelta(days=last))
    return Scope.of(window, {"tenant": tenant} if tenant else {})


def worker(url, seed, claims, path, barrier):
    """Make so many claims; of those that are granted renew some, and leave some to whoever comes next."""
    chance = random.Random(seed)
    # There is no ledger yet: the workers also race to create it.
    barrier.wait()
    ledger = open_ledger(url)
    with path.open("a") as file:

        def note(what, asked, **more):
            file.write(json.dumps({"what": what, "asked": asked, "told": time.monotonic(), **more}) + "\n")

        for _ in range(claims):
            first = chance.randrange(10)
            place = (first, first + chance.choice([1, 1, 2, 4]), chance.choice(["a", "b", "c", None]))
            dies = chance.random() < 0.1
            asked = time.monotonic()
            try:
                claim = ledger.leases.claim(TABLE, [scope_of(*place)], ttl=SHORT if dies else LONG)
            except ScopeHeld:
                note("refused", asked, place=place)
                continue
            note("granted", asked, place=place, token=claim.token, offered=[left.token for left in claim.abandoned])
            for left in claim.abandoned:
                asked = time.monotonic()
                ledger.leases.settle(left, landed=False)
                note("settled", asked, token=left.token)
            if dies or chance.random() < 0.2:
                asked = time.monotonic()
                held = ledger.leases.renew(claim, SHORT if dies else LONG)
                note("renewed" if held else "lost", asked, token=claim.token)
            if not dies:
                asked = time.monotonic()
                ledger.leases.release(claim)
                note("released", asked, token=claim.token)


def hammer(url, folder, *, workers=8, claims=200):
    """Let the workers loose; return what they noted."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(workers)
    paths = [folder / f"history-{seed}.jsonl" for seed in range(workers)]
    children = [
        context.Process(target=worker, args=(url, seed, claims, path, barrier)) for seed, path in enumerate(paths)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(180)
    assert [child.exitcode for child in children] == [0] * workers
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert sum(event["what"] in ("granted", "refused") for event in events) == workers * claims
    return events


@dataclass
class Hold:
    """What became of one granted claim."""

    scope: Scope
    asked: float
    told: float
    offered: list[int]
    # When its owner last asked for something that only the holder gets.
    seen: float = 0.0
    released: float | None = None
    released_told: float | None = None
    lost: bool = False
    # When each settlement was asked for, and when it was confirmed.
    settled: list[tuple[float, float]] = field(default_factory=list)


def check(events, leases):
    """Raise unless the history is one that a single, honest keeper of claims could have made."""
    holds = {}
    for event in events:
        if event["what"] == "granted":
            assert event["token"] not in holds, "a token was given twice"
            asked, told = event["asked"], event["told"]
            # A short lease may be over, and taken by somebody else, before its owner has heard of it.
            holds[event["token"]] = Hold(scope_of(*event["place"]), asked, told, event["offered"], seen=asked)
    assert sorted(holds) == list(range(1, len(holds) + 1)), "a token was given and its claim lost"
    for event in events:
        if event["what"] in ("granted", "refused"):
            continue
        hold = holds[event["token"]]
        if event["what"] == "renewed":
            hold.seen = max(hold.seen, event["asked"])
        elif event["what"] == "released":
            hold.released, hold.released_told = event["asked"], event["told"]
            hold.seen = max(hold.seen, event["asked"])
        elif event["what"] == "lost":
            hold.lost = True
        else:
            hold.settled.append((event["asked"], event["told"]))
    _no_scope_was_held_twice(holds)
    _every_refusal_had_a_reason(events, holds)
    _what_was_left_was_offered(holds, {lease.token for lease in leases})
    return holds


def _no_scope_was_held_twice(holds):
    for token, hold in holds.items():
        for later in range(token + 1, len(holds) + 1):
            other = holds[later]
            if not hold.scope.overlaps(other.scope):
                continue
            # The later one was granted before it was told so: by then the earlier one had its last word.
            assert hold.seen < other.told, (token, later)
            if hold.released is None:
                # Nobody released it, so whoever came next took it, and was told of it until it was settled.
                # A settlement counts from its commit, which its process may report late.
                settled = any(asked < other.told for asked, _ in hold.settled)
                assert token in other.offered or settled, (token, later)
            else:
                assert token not in other.offered, (token, later)


def _every_refusal_had_a_reason(events, holds):
    for event in events:
        if event["what"] != "refused":
            continue
        scope = scope_of(*event["place"])
        assert any(
            hold.scope.overlaps(scope) and hold.asked < event["told"] and _end(hold) > event["asked"]
            for hold in holds.values()
        ), event


def _end(hold):
    # A claim with a short lease may have been in the way until it was settled, or still is.
    if hold.released_told is not None:
        return hold.released_told
    return min((told for _, told in hold.settled), default=float("inf"))


def _what_was_left_was_offered(holds, still_open):
    left = {token for token, hold in holds.items() if hold.released is None}
    offered = {token for hold in holds.values() for token in hold.offered}
    assert offered <= left
    assert {token for token, hold in holds.items() if hold.settled} == offered
    assert left - offered == still_open, "a claim that nobody ended is not there any more"
    assert not any(hold.lost and token not in offered for token, hold in holds.items())
