"""What stores keep in memory: another thread may change it in the middle of a look."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from twice import Day, Table
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.store.commit_loop import attempts
from twice.store.fingerprints import Fingerprints
from twice.store.protocol import StagedRows
from twice.store.staged import OpenStagedRows

TARGET = Target.of(Table("s.core.t"), Scope(None), ZoneInfo("UTC"))


def rows_of(token: int) -> StagedRows:
    return StagedRows(TARGET, token, None)


def test_a_stage_that_is_opened_in_the_middle_of_a_look_does_not_break_it():
    opened: OpenStagedRows[StagedRows] = OpenStagedRows()
    opened.add(rows_of(1))
    opened.add(rows_of(2))

    def wanted(each: StagedRows) -> bool:
        opened.add(rows_of(each.token + 10))  # as another thread would
        return each.token == 2

    found = opened.find(wanted)
    assert found is not None
    assert found.token == 2
    assert opened.end("s.core.t", 12) is not None
    assert opened.end("s.core.t", 12) is None


def test_the_oldest_version_makes_room():
    known = Fingerprints(room=2)
    for version in ("1", "2", "3"):
        known.put(TARGET, version, {Scope(None): f"files of {version}"})
    assert known.get(TARGET, "1") is None
    assert known.get(TARGET, "3") == {Scope(None): "files of 3"}
    assert (known.has(TARGET.table, "1"), known.has(TARGET.table, "3")) == (False, True)


def test_a_version_is_known_only_if_all_partitions_of_the_target_are():
    known, table = Fingerprints(), Table("s.core.d", partition=Day("d"))
    day = Target.of(table, Scope(Day.unit("2026-04-25", ZoneInfo("UTC"))), ZoneInfo("UTC"))
    known.put(day, "1", {})
    assert known.get(day, "1") is None
    known.put(day, "1", {day.partitions[0]: "files"})
    assert known.get(day, "1") == {day.partitions[0]: "files"}
    known.drop(day, "1")
    assert known.get(day, "1") is None


def test_a_commit_is_tried_again_with_growing_pauses_and_none_after_the_last(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    assert list(attempts(5, first_pause=0.5, longest_pause=1.5)) == [False, False, False, False, True]
    assert pauses == [0.5, 1.0, 1.5, 1.5]
