"""What stores keep in memory: another thread may change it in the middle of a look."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from twice import Table
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.store.protocol import StagedRows
from twice.store.registries import OpenStages, Recent

TARGET = Target.of(Table("s.core.t"), Scope(None), ZoneInfo("UTC"))


def stage(token: int) -> StagedRows:
    return StagedRows(TARGET, token, None)


def test_a_stage_that_is_opened_in_the_middle_of_a_look_does_not_break_it():
    stages: OpenStages[StagedRows] = OpenStages()
    stages.add(stage(1))
    stages.add(stage(2))

    def wanted(each: StagedRows) -> bool:
        stages.add(stage(each.token + 10))  # as another thread would
        return each.token == 2

    found = stages.find(wanted)
    assert found is not None
    assert found.token == 2
    assert stages.end("s.core.t", 12) is not None
    assert stages.end("s.core.t", 12) is None


def test_the_oldest_value_makes_room_and_a_walk_sees_one_moment():
    recent: Recent[int, str] = Recent(2)
    recent.put(1, "a")
    recent.put(2, "b")
    seen = []
    for key in recent.known():
        recent.put(key + 10, "c")
        seen.append(key)
    assert seen == [1, 2]
    assert (recent.get(1), recent.get(12)) == (None, "c")
