"""S26: the scheduler starts the same run twice; and four runs of different days at once (S04)."""

from __future__ import annotations

import pytest

from tests.crash.world import AFTER, BEFORE, DAY, DAYS, END
from tests.support.processes import forks, until

pytestmark = [pytest.mark.spark, pytest.mark.crash]


def test_s26_same_second_one_works_the_other_is_told(lasting, tmp_path):
    world = lasting("overwrite")
    world.land_next()
    versions = len(world.versions())
    go, barrier = tmp_path / "go", forks.Barrier(2)

    # When two processes start the same run in the same second, the one that claims first is at work
    pair = [world.child(kind="held", hold=str(go), barrier=barrier) for _ in range(2)]
    until(lambda: any("failed" in child.states() for child in pair))
    pair.sort(key=lambda child: "failed" in child.states())
    refused = pair[1].end()
    # (and only now may it finish),
    go.touch()
    worked = pair[0].end()

    # then the other one exits 4 and names the holder, and the day was written once.
    assert (refused["exit"], refused["error"], refused["status"]) == (4, "ScopeHeld", "held")
    assert f"pid {pair[0].pid}" in refused["result"]["error"]
    assert "--wait" in refused["result"]["error"]
    assert worked["exit"] == 0
    assert worked["steps"][0]["status"] == "published"
    assert len(world.versions()) == versions + 1
    assert world.look() == world.delivered()
    assert world.tidy()


def test_s26_same_second_the_other_waits_and_finds_it_done(lasting, tmp_path):
    world = lasting("overwrite")
    world.land_next()
    versions = len(world.versions())
    go, barrier = tmp_path / "go", forks.Barrier(2)

    pair = [world.child(kind="held", hold=str(go), barrier=barrier, wait=60) for _ in range(2)]
    until(lambda: any("waiting" in child.states() for child in pair))
    go.touch()
    ends = [child.end() for child in pair]

    assert [end["exit"] for end in ends] == [0, 0]
    assert sorted(end["steps"][0]["status"] for end in ends) == ["fresh", "published"]
    assert len({end["steps"][0]["digest"] for end in ends}) == 1
    assert len(world.versions()) == versions + 1
    assert world.look() == world.delivered()
    assert world.tidy()


@pytest.mark.parametrize(
    "there",
    [pytest.param(True, id="table-exists", marks=pytest.mark.full), pytest.param(False, id="table-is-created")],
)
def test_s04_four_processes_four_days_one_table(world, there):
    # Given new deliveries of four days, and a table that holds a fifth (or that does not exist yet).
    world = world(seed=False)
    world.make_raw()
    world.land(1, *DAYS)
    if there:
        world.run(DAYS[4], "2026-04-29")
    neighbour = world.files() if there else []

    # When four processes write a day each, at once,
    barrier = forks.Barrier(4)
    ends = [(DAYS[i], world.child(DAYS[i], DAYS[i + 1], barrier=barrier)) for i in range(4)]
    results = {day: child.end() for day, child in ends}

    # then all land at the first attempt, none sees the others' commits as a conflict,
    assert {day: end["exit"] for day, end in results.items()} == dict.fromkeys(DAYS[:4], 0), results
    steps = [end["steps"][0] for end in results.values()]
    assert [(step["status"], step["attempts"]) for step in steps] == [("published", 1)] * 4, steps
    assert [world.look(day) for day in DAYS[:4]] == [world.delivered(day) for day in DAYS[:4]]
    # each under its own token and as one version, and the fifth day keeps its very files.
    outputs = world.ledger.outputs.list(world.name())
    assert len({output.token for output in outputs}) == len(outputs) == (5 if there else 4)
    assert len(world.versions()) == len(outputs)
    assert set(neighbour) <= set(world.files())
    assert world.tidy()


@pytest.mark.full
def test_s04_writers_of_neighbouring_days_keep_each_others_files(lasting, tmp_path):
    # Given a run of one day that has read its input and not yet written,
    world = lasting("overwrite")
    world.land_next()
    world.land(8, BEFORE, AFTER)
    go = tmp_path / "go"
    late = world.child(kind="held", hold=str(go))
    late.until_it_says("computing")
    # when another process publishes the days before and after it in the meantime,
    assert world.child(BEFORE, DAY).end()["exit"] == 0
    assert world.child(AFTER, END).end()["exit"] == 0
    theirs = world.files(f"partition.d <> date'{DAY}'")
    go.touch()

    # then it lands at the first attempt and leaves their files alone.
    end = late.end()
    assert (end["exit"], end["steps"][0]["attempts"]) == (0, 1)
    assert world.files(f"partition.d <> date'{DAY}'") == theirs
    assert [world.look(day) for day in DAYS[:3]] == [world.delivered(day) for day in DAYS[:3]]
    assert world.tidy()
