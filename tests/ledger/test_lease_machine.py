"""The lease state machine against a model of it, with random scopes, clocks and deaths."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from tests.support.project import FULL
from twice.errors import LeaseLost, ScopeHeld
from twice.ledger import ManualClock, Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TABLES = ("lake.a", "lake.b")


@st.composite
def any_scope(draw):
    dimensions = draw(st.dictionaries(st.sampled_from(["tenant", "region"]), st.sampled_from("xy")))
    if draw(st.integers(0, 9)) == 0:
        return Scope.of(None, dimensions)
    first = draw(st.integers(0, 5))
    last = draw(st.integers(first + 1, 6))
    return Scope.of(Window(START + timedelta(days=first), START + timedelta(days=last)), dimensions)


scopes = st.lists(any_scope(), min_size=1, max_size=3, unique=True)


class LeaseMachine(RuleBasedStateMachine):
    claims = Bundle("claims")
    abandoned = Bundle("abandoned")
    new_url = None

    def __init__(self):
        super().__init__()
        self.clock = ManualClock(START)
        self.ledger = open_ledger(type(self).new_url(), clock=self.clock)
        self.run = self.ledger.runs.start("shop", Scope(None))
        self.open = {}  # (table, token) -> [scopes, state, expires]
        self.highest = dict.fromkeys(TABLES, 0)

    @rule(target=claims, table=st.sampled_from(TABLES), wanted=scopes, ttl=st.integers(1, 60))
    def claim(self, table, wanted, ttl):
        touched = [
            key
            for key, (theirs, _, _) in self.open.items()
            if key[0] == table and any(a.overlaps(b) for a in wanted for b in theirs)
        ]
        blocked = any(self.open[key][1] == "live" and self.open[key][2] > self.clock.now() for key in touched)
        try:
            claim = self.ledger.leases.claim(table, wanted, ttl=timedelta(seconds=ttl), run=self.run)
        except ScopeHeld:
            assert blocked
            return multiple()
        assert not blocked
        assert claim.token == self.highest[table] + 1
        assert [(item.table, item.token) for item in claim.abandoned] == sorted(touched)
        for key in touched:
            self.open[key][1] = "taken"
        self.highest[table] = claim.token
        self.open[table, claim.token] = [tuple(wanted), "live", claim.expires_at]
        attempt = self.ledger.attempts.start(self.run, "s", table, 1, wanted[0], code="c")
        self.ledger.leases.bind(attempt, claim, base_version=None, inputs=[])
        return claim, attempt

    @rule(seconds=st.integers(1, 60))
    def time_passes(self, seconds):
        self.clock.advance(timedelta(seconds=seconds))

    @rule(pair=claims, ttl=st.integers(1, 60))
    def renew(self, pair, ttl):
        held = self._held(pair[0])
        assert self.ledger.leases.renew(pair[0], timedelta(seconds=ttl)) == held
        if held:
            self.open[pair[0].table, pair[0].token][2] = self.clock.now() + timedelta(seconds=ttl)

    @rule(pair=claims)
    def prepare(self, pair):
        try:
            self.ledger.outputs.prepare(*pair, self._outputs(pair[0]))
        except LeaseLost:
            assert not self._held(pair[0])
        else:
            assert self._held(pair[0])
            self._renewed(pair[0])

    @rule(pair=claims)
    def bind(self, pair):
        claim, attempt = pair
        try:
            self.ledger.leases.bind(attempt, claim, base_version="1", inputs=[])
        except LeaseLost:
            assert not self._held(claim)
        else:
            assert self._held(claim)
            self._renewed(claim)

    @rule(pair=consumes(claims))
    def record(self, pair):
        held = self._held(pair[0])
        try:
            self.ledger.outputs.record(*pair, self._outputs(pair[0]))
        except LeaseLost:
            assert not held
        else:
            assert held
            del self.open[pair[0].table, pair[0].token]
            for scope in pair[0].scopes:
                found = self.ledger.outputs.find(pair[0].table, scope)
                assert found is not None
                assert found.token == pair[0].token

    @rule(pair=consumes(claims))
    def release(self, pair):
        self.ledger.leases.release(pair[0])
        if self._held(pair[0]):
            del self.open[pair[0].table, pair[0].token]

    @rule(target=abandoned, pair=consumes(claims))
    def take_over(self, pair):
        key = (pair[0].table, pair[0].token)
        if key not in self.open:
            return multiple()
        self.open[key][1] = "taken"
        return self.ledger.leases.take_over(*key)

    @rule(item=abandoned, landed=st.booleans())
    def settle(self, item, landed):
        self.ledger.leases.settle(item, landed=landed)
        self.open.pop((item.table, item.token), None)

    @invariant()
    def the_ledger_agrees_with_the_model(self):
        found = {(lease.table, lease.token): lease for lease in self.ledger.leases.list()}
        assert found.keys() == self.open.keys()
        for key, (scopes, state, expires_at) in self.open.items():
            expired = state == "live" and expires_at <= self.clock.now()
            assert (found[key].scopes, found[key].state) == (scopes, "expired" if expired else state)

    @invariant()
    def no_two_untaken_leases_overlap(self):
        mine = [lease for lease in self.ledger.leases.list() if lease.state != "taken"]
        for a, b in itertools.combinations(mine, 2):
            assert a.table != b.table or not any(x.overlaps(y) for x in a.scopes for y in b.scopes)

    def _renewed(self, claim):
        self.open[claim.table, claim.token][2] = self.clock.now() + claim.ttl

    def _held(self, claim):
        return self.open.get((claim.table, claim.token), [None, "gone"])[1] == "live"

    def _outputs(self, claim):
        return [Output(claim.table, scope, 1, "d", "f", None, "shop", "s", "c", ()) for scope in claim.scopes]


def test_the_lease_state_machine(kind, new_url):
    from hypothesis.stateful import run_state_machine_as_test

    LeaseMachine.new_url = staticmethod(new_url)
    run_state_machine_as_test(
        LeaseMachine,
        settings=settings(
            # A transaction on a server costs a connection.
            max_examples=(30 if kind == "sqlite" else 8) if FULL else (20 if kind == "sqlite" else 5),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
