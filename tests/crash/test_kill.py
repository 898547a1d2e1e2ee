"""Kill -9 at every named point of the protocol, run again, and find what a clean run makes."""

from __future__ import annotations

import itertools
import os
import signal

import pytest

from tests.crash.world import DAY
from twice.failpoints import FAIL_POINTS

pytestmark = [pytest.mark.spark, pytest.mark.crash]

# Every point with one pattern, and every pattern with a death before and one after its commit.
# TWICE_CRASH_MATRIX=full takes every pattern to every point at which it differs from the others.
SOME = (
    ("merge", "stage.written"),
    ("merge", "publish.committed"),
    ("insert", "publish.ready"),
    ("insert", "record.written"),
    ("whole", "publish.ready"),
    ("whole", "publish.committed"),
)
ALL = itertools.product(
    ("merge", "insert", "whole"), ("stage.written", "publish.ready", "publish.committed", "record.written")
)
CASES = [
    *(("overwrite", point) for point in FAIL_POINTS),
    *(ALL if os.environ.get("TWICE_CRASH_MATRIX") == "full" else SOME),
]
LANDED = {"publish.committed", "record.written"}


def test_every_fail_point_is_killed_at():
    assert {point for kind, point in CASES if kind == "overwrite"} == set(FAIL_POINTS)


@pytest.mark.parametrize(("kind", "point"), CASES, ids=lambda value: value.replace(".", "-"))
def test_s08_killed_then_rerun_is_a_clean_run(lasting, kind, point):
    # Given a table with other days and an older version of this day, and a new delivery.
    world = lasting(kind)
    number = world.land_next()
    old, new = world.look(), world.delivered()
    before = world.versions()
    neighbours = world.files(f"partition.d <> date'{DAY}'") if kind == "overwrite" else []
    assert old != new

    with world.reader() as reader:
        # When a run dies at the point (for a recovery: when it cleans up after another that died) …
        if point == "recover.dropped":
            assert world.child(fail_point="stage.written:kill").end()["exit"] == -signal.SIGKILL
        assert world.child(fail_point=f"{point}:kill").end()["exit"] == -signal.SIGKILL
        after_death = world.look()
        # … and the same run is started again, at once.
        result = world.run()

    # Then the table is what a clean run makes, in one new version,
    assert after_death == (new if point in LANDED else old)
    assert [step.status for step in result.steps] == ["unchanged" if point in LANDED else "published"]
    rows, digests = world.clean(number)
    assert world.rows() == rows
    assert world.recorded() == digests
    assert len(world.versions()) == len(before) + 1
    # the neighbours keep their very files, nothing is left over, and readers saw one version, then the other.
    if kind == "overwrite":
        assert world.files(f"partition.d <> date'{DAY}'") == neighbours
    assert world.tidy()
    assert reader.story == [old, new]
    assert len(reader.seen) > 2
