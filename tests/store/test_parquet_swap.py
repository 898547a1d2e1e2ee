"""The log and the swap of the Parquet store, without Spark: any file may stand for a Parquet file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from twice import Day, Hour, Overwrite, Table, Whole, failpoints
from twice.errors import Conflict, LeaseLost, StoreRefused, TransientError
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.file_system import LocalFiles
from twice.store.parquet import columns, publishing, swap
from twice.store.parquet.folder import Folder
from twice.store.parquet.log import Log, State

UTC = ZoneInfo("UTC")
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
DAYS = Table("files.core.t", partition=Day("d"), key=["id"], write=Overwrite())
TENANTS = Table("files.core.t", partition=Day("d"), dimensions=["tenant"], key=["id"], write=Overwrite())
WHOLE = Table("files.core.t", key=["id"], write=Whole())


class FolderTable:
    """A table of a few files, and claims on it."""

    def __init__(self, root: Path, table: Table = DAYS, *, exists: bool = False) -> None:
        self.root, self.table = root, table
        self.folder = Folder.of(table, LocalFiles(), str(root))
        assert exists or self.folder.log.commit(State(0, 0, SCHEMA))

    def target(self, first: str = "2026-04-25", end: str = "2026-04-26", **dimensions: str) -> Target:
        window = Window(Day.parse(first, UTC), Day.parse(end, UTC)) if self.table.partition else None
        return Target.of(self.table, Scope.of(window, dimensions), UTC)

    def stage(self, token: int, rows: dict[str, str], target: Target | None = None) -> publishing.ParquetStagedRows:
        """Write what a claim would: a text by the path of its file."""
        staged = publishing.open_staging(self.folder, target or self.target(), token)
        for path, text in rows.items():
            file = Path(self.folder.rows(token), path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return staged

    def publish(self, token: int, rows: dict[str, str], target: Target | None = None, **remember: str) -> str:
        target = target or self.target()
        return publishing.publish(self.folder, self.stage(token, rows, target), target.partitions, {}, remember)

    def data(self) -> dict[str, str]:
        """Everything that a reader of the folder sees."""
        root = Path(self.folder.data)
        return {
            str(path.relative_to(root)): path.read_text()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(("_", "."))
        }

    def leftovers(self) -> list[str]:
        book = Path(self.folder.bookkeeping)
        return sorted(str(path) for part in ("stage", "aside", "trash", "work") for path in (book / part).glob("*"))

    @property
    def head(self) -> State:
        found = self.folder.log.head()
        assert found is not None
        return found


@pytest.fixture
def files(tmp_path):
    return FolderTable(tmp_path)


DAY = "d=2026-04-25"


def test_a_day_is_replaced_and_its_neighbours_are_not_touched(files):
    neighbour = files.target("2026-04-26", "2026-04-27")
    assert files.publish(1, {"d=2026-04-26/a": "n"}, neighbour) == "1"
    inode = Path(files.folder.data, "d=2026-04-26/a").stat().st_ino
    assert files.publish(2, {f"{DAY}/a": "1", f"{DAY}/b": "2"}) == "2"
    assert files.publish(3, {f"{DAY}/c": "3"}, newest="x") == "3"
    assert files.data() == {f"{DAY}/c": "3", "d=2026-04-26/a": "n"}
    assert Path(files.folder.data, "d=2026-04-26/a").stat().st_ino == inode
    assert files.leftovers() == []
    assert files.head.properties == {"newest": "x"}
    assert files.head.ended == {1: 1, 2: 2, 3: 3}


def test_an_empty_result_removes_the_partition(files):
    files.publish(1, {f"{DAY}/a": "1"})
    assert files.publish(2, {}) == "2"
    assert files.data() == {}
    assert not Path(files.folder.data, DAY).exists()


def test_only_the_partitions_that_are_asked_for_move(files):
    both = files.target("2026-04-25", "2026-04-27")
    files.publish(1, {f"{DAY}/a": "old", "d=2026-04-26/a": "old"}, both)
    staged = files.stage(2, {f"{DAY}/b": "new", "d=2026-04-26/b": "new"}, both)
    publishing.publish(files.folder, staged, both.partitions[1:], {}, {})
    assert files.data() == {f"{DAY}/a": "old", "d=2026-04-26/b": "new"}
    assert files.leftovers() == []


def test_a_whole_table_is_one_folder(tmp_path):
    files = FolderTable(tmp_path, WHOLE)
    files.publish(1, {"a": "1", "_SUCCESS": ""})
    files.publish(2, {"b": "2", "_temporary/0/x": "left by a write that failed"})
    assert files.data() == {"b": "2"}
    assert sorted(path.name for path in Path(files.folder.data).iterdir()) == ["b"]


def test_one_tenant_is_replaced_below_the_day(tmp_path):
    files = FolderTable(tmp_path, TENANTS)
    files.publish(1, {f"{DAY}/tenant=a/1": "a", f"{DAY}/tenant=b/1": "b"})
    files.publish(2, {f"{DAY}/tenant=a/2": "A"}, files.target(tenant="a"))
    files.publish(3, {}, files.target(tenant="c"))
    assert files.data() == {f"{DAY}/tenant=a/2": "A", f"{DAY}/tenant=b/1": "b"}
    files.publish(4, {f"{DAY}/tenant=c/3": "c"})
    assert files.data() == {f"{DAY}/tenant=c/3": "c"}


def test_s10_tenants_with_difficult_names_are_single_folders(tmp_path):
    from twice.store.parquet.names import escape

    files = FolderTable(tmp_path, TENANTS)
    names = ["..", "a/b", "it's", 'say "x"', "Zoë", "50%", "line\nbreak", "back\\slash", "x" * 80]
    files.publish(1, {f"{DAY}/tenant={escape(name)}/1": name for name in names})
    for number, name in enumerate(names):
        files.publish(2 + number, {f"{DAY}/tenant={escape(name)}/2": name.upper()}, files.target(tenant=name))
    assert files.data() == {f"{DAY}/tenant={escape(name)}/2": name.upper() for name in names}
    assert [path.name for path in tmp_path.iterdir()] == ["core"]


def test_hours_are_found_by_their_instant(tmp_path):
    table = Table("files.core.t", partition=Hour("h"), write=Overwrite())
    files = FolderTable(tmp_path, table)
    window = Window(*(Hour.parse(text, UTC) for text in ("2026-04-25T13", "2026-04-25T15")))
    target = Target.of(table, Scope(window), UTC)
    files.publish(1, {"h=2026-04-25 13%3A00%3A00/a": "1", "h=2026-04-25 14%3A00%3A00/a": "2"}, target)
    files.publish(2, {"h=2026-04-25 14%3A00%3A00/b": "3"}, target)
    assert files.data() == {"h=2026-04-25 14%3A00%3A00/b": "3"}


def test_a_fenced_claim_cannot_publish_stage_or_end(files):
    files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    assert publishing.fence(files.folder, 2) is None
    assert files.leftovers() == []
    with pytest.raises(LeaseLost, match="claim 2 was taken over"):
        publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    with pytest.raises(LeaseLost):
        publishing.discard(files.folder, staged, {})
    with pytest.raises(LeaseLost):
        publishing.open_staging(files.folder, files.target(), 2)
    assert publishing.fence(files.folder, 2) is None
    assert files.data() == {f"{DAY}/a": "1"}


def test_a_claim_that_has_published_is_adopted_not_fenced(files):
    assert files.publish(7, {f"{DAY}/a": "1"}) == "1"
    assert publishing.fence(files.folder, 7) == "1"
    assert files.head.token == 7
    assert publishing.fence(files.folder, 3) is None
    assert files.head.token == 7


def test_a_fence_that_comes_between_look_and_entry_wins(files, monkeypatch):
    staged = files.stage(1, {f"{DAY}/a": "1"})
    commit, raced = Log.commit, []

    def late(log, state):
        if not raced:
            raced.append(True)
            assert publishing.fence(files.folder, 1) is None
        return commit(log, state)

    monkeypatch.setattr(Log, "commit", late)
    with pytest.raises(LeaseLost):
        publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    assert files.data() == {}


def test_one_whose_prepared_entry_is_cleaned_away_has_lost_the_race(files, monkeypatch):
    slow, write, raced = files.head.following(), LocalFiles.write, []

    def late(local, path, text):
        if not raced:
            raced.append(True)
            files.publish(1, {f"{DAY}/a": "1"})
        write(local, path, text)

    monkeypatch.setattr(LocalFiles, "write", late)
    assert files.folder.log.commit(slow) is False
    assert (files.head.version, files.leftovers()) == (1, [])


def test_a_lost_answer_is_looked_up(files, monkeypatch):
    staged, commit = files.stage(1, {f"{DAY}/a": "1"}), Log.commit

    def lost(log, state):
        commit(log, state)
        raise TransientError("the answer was lost")

    monkeypatch.setattr(Log, "commit", lost)
    assert publishing.publish(files.folder, staged, staged.target.partitions, {}, {}) == "1"
    assert files.data() == {f"{DAY}/a": "1"}
    assert publishing.publish(files.folder, staged, staged.target.partitions, {}, {}) == "1"
    assert files.head.version == 1


def test_an_error_before_the_entry_publishes_nothing(files, monkeypatch):
    staged = files.stage(1, {f"{DAY}/a": "1"})

    def broken(log, state):
        raise TransientError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "commit", broken)
        with pytest.raises(TransientError, match="no disk"):
            publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    assert files.data() == {}
    assert publishing.fence(files.folder, 1) is None
    assert files.leftovers() == []


@pytest.mark.parametrize("change", ["rewritten", "added", "removed"])
def test_what_somebody_else_did_to_the_scope_is_a_conflict(files, change):
    files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    file = Path(files.folder.data, DAY, "a")
    if change == "removed":
        file.unlink()
    else:
        (file if change == "rewritten" else file.with_name("other")).write_text("by hand")
    before = files.data()
    with pytest.raises(Conflict, match="2026-04-25: its files were changed by another writer"):
        publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    with pytest.raises(Conflict):
        publishing.discard(files.folder, staged, {})
    assert files.data() == before


def test_what_others_do_next_door_is_none(files):
    staged = files.stage(1, {f"{DAY}/a": "1"})
    files.publish(2, {"d=2026-04-26/a": "n"}, files.target("2026-04-26", "2026-04-27"))
    assert publishing.publish(files.folder, staged, staged.target.partitions, {}, {}) == "2"
    assert files.data() == {f"{DAY}/a": "1", "d=2026-04-26/a": "n"}


def test_dropping_an_unchanged_stage_makes_no_version(files):
    files.publish(1, {f"{DAY}/a": "1"})
    number = files.head.number
    publishing.discard(files.folder, files.stage(2, {f"{DAY}/b": "1"}), {})
    assert (files.head.number, files.head.version) == (number, 1)
    publishing.discard(files.folder, files.stage(3, {}), {"newest": "now"})
    assert (files.head.version, files.head.properties) == (1, {"newest": "now"})
    assert files.leftovers() == []


def test_sixteen_writers_side_by_side_all_land_and_none_twice(files):
    days = [f"2026-05-{number:02d}" for number in range(1, 17)]
    targets = [files.target(day, f"2026-05-{number:02d}") for number, day in enumerate(days, 2)]

    def write(number: int) -> str:
        own = FolderTable(files.root, exists=True)
        return own.publish(number + 1, {f"d={days[number]}/x": days[number]}, targets[number])

    with ThreadPoolExecutor(8) as pool:
        versions = sorted(int(version) for version in pool.map(write, range(16)))
    assert versions == list(range(1, 17))
    assert files.data() == {f"d={day}/x": day for day in days}
    assert files.leftovers() == []


@pytest.mark.parametrize("point", ["parquet.journalled", "parquet.moved_aside", "parquet.moved_in", "parquet.swapped"])
def test_whoever_comes_next_finishes_a_decided_publish(files, monkeypatch, point):
    failpoints.reset()
    files.publish(1, {f"{DAY}/a": "1", f"{DAY}/b": "1"})
    staged = files.stage(2, {f"{DAY}/c": "2"})
    with monkeypatch.context() as patch:
        patch.setenv("TWICE_FAILPOINT", f"{point}:raise")
        with pytest.raises(TransientError):
            publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    assert publishing.fence(files.folder, 2) == "2"
    assert files.data() == {f"{DAY}/c": "2"}
    assert files.leftovers() == []


@pytest.mark.parametrize("had", [True, False], ids=["replaced", "new"])
def test_one_who_slept_through_the_swap_and_the_next_one_moves_nothing(files, had):
    # Given a publish that others finished while its process slept, and a newer publish of the same day,
    if had:
        files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    slept_at = files.head
    files.publish(3, {f"{DAY}/c": "3"})
    # when it wakes up and goes on with its moves,
    swap.finish(files.folder, slept_at)
    # then the newer day stays where it is.
    assert files.data() == {f"{DAY}/c": "3"}
    assert files.head.version == (3 if had else 2)


def test_one_who_wakes_up_before_the_others_have_cleaned_up_moves_nothing(files, monkeypatch):
    files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    with monkeypatch.context() as patch:
        patch.setenv("TWICE_FAILPOINT", "parquet.moved_in:raise")
        failpoints.reset()
        with pytest.raises(TransientError):
            publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    swap.put_aside(files.folder, f"{files.folder.data}/{DAY}", f"{files.folder.aside(2)}/0")
    assert files.data() == {f"{DAY}/b": "2"}
    swap.settle(files.folder)
    assert files.data() == {f"{DAY}/b": "2"}
    assert files.leftovers() == []


def test_files_of_somebody_else_in_the_middle_of_a_swap_are_kept_and_named(files, monkeypatch):
    staged = files.stage(1, {f"{DAY}/a": "1"})
    with monkeypatch.context() as patch:
        patch.setenv("TWICE_FAILPOINT", "parquet.journalled:raise")
        failpoints.reset()
        with pytest.raises(TransientError):
            publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    theirs = Path(files.folder.data, DAY, "theirs")
    theirs.parent.mkdir(parents=True)
    theirs.write_text("x")
    with pytest.raises(StoreRefused, match=r"another process wrote to .*d=2026-04-25") as caught:
        publishing.fence(files.folder, 1)
    assert "move the other files away" in caught.value.next_step
    theirs.rename(theirs.parents[2] / "away")
    assert publishing.fence(files.folder, 1) == "1"
    assert files.data() == {f"{DAY}/a": "1"}


def test_old_entries_are_emptied_and_their_numbers_never_used_again(files):
    stale = files.head.following()
    for token in range(1, 31):
        files.publish(token, {f"{DAY}/{token}": str(token)})
    sizes = [Path(files.folder.bookkeeping, "log", str(number), "entry.json").stat().st_size for number in range(31)]
    assert sizes[:10] == [0] * 10
    assert all(sizes[12:])
    assert files.folder.log.commit(stale) is False
    assert Log(LocalFiles(), files.folder.bookkeeping).head() == files.head
    assert files.leftovers() == []


def test_the_log_of_a_newer_twice_and_a_damaged_one_are_refused(files):
    entry = Path(files.folder.bookkeeping, "log", "0", "entry.json")
    newer = {**json.loads(entry.read_text()), "format": 2}
    entry.write_text(json.dumps(newer))
    with pytest.raises(StoreRefused, match="newer version of twice"):
        files.folder.log.head()
    entry.write_text("{")
    with pytest.raises(StoreRefused, match="damaged"):
        files.folder.log.head()


def test_a_dropped_table_is_noticed(files):
    import shutil

    files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    shutil.rmtree(files.folder.bookkeeping)
    with pytest.raises(Conflict, match="was dropped"):
        publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    assert publishing.fence(files.folder, 2) is None
    with pytest.raises(Conflict, match="was dropped"):
        publishing.open_staging(files.folder, files.target(), 3)


def test_columns_are_added_behind_and_a_race_for_a_type_is_a_conflict():
    def schema(**kinds: str) -> str:
        return json.dumps({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]})

    both = columns.together("t", schema(id="long", a="string"), schema(b="date", id="long"))
    assert [field["name"] for field in json.loads(both)["fields"]] == ["id", "a", "b"]
    with pytest.raises(Conflict, match="column a with another type"):
        columns.together("t", schema(a="string"), schema(a="long"))


def test_a_slow_claim_with_an_old_number_is_remembered_when_it_ends():
    state = State(number=1, version=0, schema="")
    for token in range(2, 500):
        state = state.ending(token, None)
    assert state.ending(1, 7).ended[1] == 7
    assert 2 not in state.ended


def test_a_claim_that_was_fenced_so_long_ago_that_the_log_forgot_it_cannot_publish(files):
    files.publish(1, {f"{DAY}/a": "1"})
    staged = files.stage(2, {f"{DAY}/b": "2"})
    publishing.fence(files.folder, 2)
    for token in range(3, 210):
        publishing.fence(files.folder, token)
    with pytest.raises(LeaseLost):
        publishing.publish(files.folder, staged, staged.target.partitions, {}, {})
    assert 2 not in files.head.ended
    assert files.data() == {f"{DAY}/a": "1"}
