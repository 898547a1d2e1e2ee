"""A holder that freezes beyond its lease is replaced, and can no longer publish (S26, S45)."""

from __future__ import annotations

import signal
import time

import pytest

from tests.crash.world import DAY, DAYS
from twice.errors import ScopeHeld

pytestmark = [pytest.mark.spark, pytest.mark.crash]

LEASE = 2.0
EMPTY, END_OF_EMPTY = DAYS[3:]


def frozen(world, point, *window):
    """Start a run that stops (SIGSTOP) at a point, and wait until its lease has run out."""
    child = world.paused(point, *window)
    time.sleep(LEASE + 0.2)
    return child


def woken(child):
    child.send(signal.SIGCONT)
    return child.end()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("claim.leased", marks=pytest.mark.full),
        pytest.param("claim.fenced", marks=pytest.mark.full),
        pytest.param("gate.passed", marks=pytest.mark.full),
        "publish.ready",
    ],
)
def test_s26_a_frozen_holder_cannot_publish_after_it_was_replaced(lasting, point):
    # Given a run that froze with an old delivery in its hands,
    world = lasting("overwrite", lease=LEASE)
    world.land(9, DAY)
    first = frozen(world, point)
    # when a newer delivery comes, a second process takes over, and the first wakes up,
    world.land_next()
    second = world.run()
    assert [step.status for step in second.steps] == ["published"]
    versions = world.versions()
    end = woken(first)

    # then the first ends with exit 4 and the second's version stands, with nothing left over.
    assert (end["exit"], end["error"]) == (4, "LeaseLost"), end
    assert world.versions() == versions
    assert world.look() == world.delivered()
    assert second.run in {output.run for output in world.ledger.outputs.list(world.name())}
    assert world.tidy()


@pytest.mark.parametrize(
    ("point", "wait"),
    [
        pytest.param("gate.passed", 0, marks=pytest.mark.full),
        ("publish.ready", 0),
        pytest.param("publish.ready", 30, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_s45_refused_although_the_winner_had_nothing_to_change(lasting, point, wait):
    # Given a run that froze with a wrong delivery staged,
    world = lasting("overwrite", lease=LEASE)
    number = world.land_next()
    world.run()
    right, before = world.look(), world.versions()
    world.land(8, DAY)
    first = world.paused(point)
    # when the delivery is taken back, and the winner finds the table as it should be
    # (if it waited for the lease, it looks at the record first, and need not even compute),
    world.land(number, DAY)
    if not wait:
        time.sleep(LEASE + 0.2)
    winner = world.run(wait=wait)
    assert winner.steps[0].status in ("unchanged", "fresh")
    assert world.versions() == before

    # then the first is refused all the same.
    end = woken(first)
    assert (end["exit"], end["error"]) == (4, "LeaseLost"), end
    assert world.versions() == before
    assert world.look() == right == world.delivered()
    assert world.tidy()


@pytest.mark.full
def test_s45_refused_although_the_winner_found_nothing_where_nothing_was(lasting):
    # Given a table whose day is empty, and a run that froze with rows for it,
    world = lasting("overwrite", lease=LEASE)
    world.land(0, EMPTY, rows=0)
    world.land(2, EMPTY)
    first = frozen(world, "publish.ready", EMPTY, END_OF_EMPTY)
    # when the rows are taken back and a second run finds no rows for the empty day,
    world.land(2, EMPTY, rows=0)
    before = world.versions()
    assert [step.status for step in world.run(EMPTY, END_OF_EMPTY).steps] == ["unchanged"]

    # then the first does not bring its rows in.
    end = woken(first)
    assert (end["exit"], end["error"]) == (4, "LeaseLost"), end
    assert world.versions() == before
    assert world.look(EMPTY)[0] == 0
    assert world.tidy()


@pytest.mark.full
def test_a_live_holder_is_not_replaced_before_its_lease_ends(lasting):
    # Given a run that is stopped, whose process is there and whose lease has not run out,
    world = lasting("overwrite", lease=6)
    world.land_next()
    first = world.paused("claim.fenced")
    # when another run comes, it is told to wait; with patience it gets the scope when the lease ends.
    with pytest.raises(ScopeHeld):
        world.run()
    assert world.look() != world.delivered()
    assert [step.status for step in world.run(wait=30).steps] == ["published"]
    assert world.look() == world.delivered()
    assert woken(first)["exit"] == 4
    assert world.tidy()


def test_a_holder_that_lives_keeps_its_lease_however_long_it_works(lasting, tmp_path):
    # Given a lease of two seconds and a run that works for longer than that,
    world = lasting("overwrite", lease=LEASE)
    world.land_next()
    go = tmp_path / "go"
    first = world.child(kind="held", hold=str(go))
    first.until_it_says("computing")
    time.sleep(1.5 * LEASE)
    # then its heartbeat keeps everybody else out, and it publishes.
    with pytest.raises(ScopeHeld):
        world.run()
    go.touch()
    end = first.end()
    assert (end["exit"], end["steps"][0]["status"]) == (0, "published")
    assert world.look() == world.delivered()
