"""Scopes overlap exactly when a row could belong to both."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from twice import Scope, Window

START = datetime(2026, 4, 25, tzinfo=timezone.utc)
TENANTS, REGIONS = ("acme", "bolt", ""), ("eu", "us")
ROWS = list(product([START + timedelta(hours=hour) for hour in range(5)], TENANTS, REGIONS))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    first = draw(st.integers(0, 4))
    last = draw(st.integers(first + 1, 5))
    return Window(START + timedelta(hours=first), START + timedelta(hours=last))


dimensions = st.fixed_dictionaries(
    {}, optional={"tenant": st.sampled_from(TENANTS), "region": st.sampled_from(REGIONS)}
)
scopes = st.builds(Scope.of, st.none() | windows(), dimensions)


def rows_of(scope: Scope) -> set[tuple[datetime, str, str]]:
    wanted = dict(scope.dimensions)
    return {
        (instant, tenant, region)
        for instant, tenant, region in ROWS
        if (scope.window is None or scope.window.contains(instant))
        and wanted.get("tenant", tenant) == tenant
        and wanted.get("region", region) == region
    }


@settings(deadline=None)
@given(scopes, scopes)
def test_scopes_overlap_when_they_share_a_row(a, b):
    assert a.overlaps(b) == b.overlaps(a) == bool(rows_of(a) & rows_of(b))


@settings(deadline=None)
@given(scopes)
def test_every_scope_overlaps_itself_and_the_whole_table(scope):
    assert scope.overlaps(scope)
    assert scope.overlaps(Scope.of(None))


@settings(deadline=None)
@given(scopes)
def test_the_order_of_dimensions_does_not_matter(scope):
    again = Scope(scope.window, tuple(reversed(scope.dimensions)))
    assert (again, hash(again), str(again)) == (scope, hash(scope), str(scope))


def test_one_tenant_written_as_number_and_text_is_one_scope():
    assert Scope.of(None, {"tenant": 7}) == Scope.of(None, {"tenant": "7"})
    assert Scope.of(None, {"tenant": 7}).overlaps(Scope.of(None, {"tenant": "7"}))


def test_a_run_without_tenant_excludes_every_single_tenant():
    window = Window(START, START + timedelta(days=1))
    assert Scope.of(window).overlaps(Scope.of(window, {"tenant": "acme"}))
    assert not Scope.of(window, {"tenant": "acme"}).overlaps(Scope.of(window, {"tenant": "bolt"}))


def test_scopes_in_words_and_as_json():
    scope = Scope.of(Window(START, START + timedelta(days=1)), {"tenant": "acme", "region": "eu"})
    assert str(scope) == "2026-04-25/2026-04-26 region=eu tenant=acme"
    assert str(Scope.of(None)) == "whole table"
    assert scope.to_json() == {
        "window": {"start": "2026-04-25T00:00:00+00:00", "end": "2026-04-26T00:00:00+00:00"},
        "dimensions": {"region": "eu", "tenant": "acme"},
    }
    assert Scope.of(None).to_json() == {"window": None, "dimensions": {}}
