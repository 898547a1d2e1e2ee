"""Claims on Delta tables: fences, answers that are lost, tokens that survive; two stores play two processes."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from py4j.protocol import Py4JNetworkError

from twice import Day, Merge, Overwrite, Table, Window
from twice.content.filters import scope_filter
from twice.errors import Conflict, LeaseLost
from twice.model.names import TableName
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.store.delta import jvm
from twice.store.delta.claims import Claims, Mark
from twice.store.delta.settings import Settings
from twice.store.delta.store import DeltaStore

pytestmark = pytest.mark.spark

UTC = timezone.utc
DAYS = [datetime(2026, 4, day, tzinfo=UTC) for day in (24, 25, 26, 27)]
NOTES = {"twice.run": "r1", "twice.step": "p.s"}


class ClaimedTable:
    """One table, and the stores of as many processes as a test wants."""

    def __init__(self, lab, settings: Settings, **contract) -> None:
        self.lab, self.session, self.settings = lab, lab.spark.newSession(), settings
        contract = contract or {"partition": Day("d"), "key": ["id"], "write": Overwrite()}
        self.table = Table(f"warehouse.{lab.space}.t", **contract)
        self.store = DeltaStore(settings)
        self.store.prepare(self.session, self.table, self.made(0).schema)

    def process(self) -> DeltaStore:
        return DeltaStore(self.settings)

    def target(self, first: int = 1, last: int = 1) -> Target:
        return Target.of(self.table, Scope(Window(DAYS[first], DAYS[last + 1])), ZoneInfo("UTC"))

    def made(self, count: int, day: int = 1, n: int = 0, session=None):
        text = f"select id, date'{DAYS[day]:%Y-%m-%d}' as d, cast({n} as int) as n from range({count})"
        return (session or self.session).sql(text)

    def staged(self, store: DeltaStore, token: int, count: int, n: int = 0):
        staged = store.open(self.session, self.target(), token)
        store.stage(self.session, staged, self.made(count, n=n))
        return staged

    def publish(self, store: DeltaStore, staged) -> str:
        return store.publish(self.session, staged, staged.target.partitions, NOTES, {})

    def count(self) -> int:
        return self.store.read(self.session, self.table, self.version()).count()

    def version(self) -> str:
        return self.store.version(self.session, self.table)

    def commits(self) -> int:
        log = self.store.locations.log(self.session, self.table.id)
        return int(jvm.snapshot(self.session, log).version())

    def path(self) -> str:
        return self.store.locations.path(self.table.id)

    def fingerprints(self):
        return self.store.files(self.session, self.target(), self.version())


@pytest.fixture
def claimed(lab) -> ClaimedTable:
    return ClaimedTable(lab, Settings(str(lab.config.root / "delta")))


@pytest.mark.full
def test_s45_a_frozen_claim_is_refused_although_the_winner_changed_nothing(claimed):
    # Given a claim that has staged its rows and freezes,
    mine, winner = claimed.store, claimed.process()
    staged = claimed.staged(mine, 3, 5)
    # when another process takes over, finds nothing to change and says nothing but that,
    assert winner.staged_tokens(claimed.session, claimed.table) == [3]
    assert winner.fence(claimed.session, claimed.table, 3) is None
    empty = winner.open(claimed.session, claimed.target(), 4)
    winner.stage(claimed.session, empty, claimed.made(0))
    winner.discard(claimed.session, empty, {})
    before = claimed.version(), claimed.fingerprints()
    # then the first can neither publish nor say that nothing had to change,
    with pytest.raises(LeaseLost, match="claim 3 was taken over"):
        claimed.publish(mine, staged)
    with pytest.raises(LeaseLost):
        mine.discard(claimed.session, staged, {})
    assert (claimed.version(), claimed.fingerprints()) == before
    # nothing is left over, and the table remembers the tokens although nothing was published.
    assert claimed.count() == 0
    assert winner.staged_tokens(claimed.session, claimed.table) == []
    assert winner.token(claimed.session, claimed.table) == 3
    assert winner.fence(claimed.session, claimed.table, 3) is None


def test_s45_a_fence_in_the_very_moment_of_the_commit_wins(claimed, monkeypatch):
    mine, winner = claimed.store, claimed.process()
    staged = claimed.staged(mine, 3, 5)
    commit, fenced = jvm.commit, []

    def first_the_other(*how):
        if not fenced:
            fenced.append(True)
            assert winner.fence(claimed.lab.spark.newSession(), claimed.table, 3) is None
        return commit(*how)

    monkeypatch.setattr(jvm, "commit", first_the_other)
    with pytest.raises(LeaseLost):
        claimed.publish(mine, staged)
    assert claimed.count() == 0


@pytest.mark.parametrize(
    ("day", "lands"),
    [
        pytest.param(1, False, id="of-the-scope"),
        pytest.param(2, True, id="of-another-day", marks=pytest.mark.full),
    ],
)
def test_rows_that_come_in_the_very_moment_of_the_commit_are_not_overlooked(claimed, monkeypatch, day, lands):
    staged = claimed.staged(claimed.store, 3, 5)
    commit, inserted = jvm.commit, []

    def first_the_other(*how):
        if not inserted:
            rows = claimed.made(2, day=day, session=claimed.lab.spark.newSession())
            inserted.append(rows.write.format("delta").mode("append").save(claimed.path()))
        return commit(*how)

    monkeypatch.setattr(jvm, "commit", first_the_other)
    if lands:
        claimed.publish(claimed.store, staged)
        assert claimed.count() == 7
    else:
        with pytest.raises(Conflict):
            claimed.publish(claimed.store, staged)
        assert claimed.count() == 2


@pytest.mark.full
def test_what_had_landed_is_adopted_by_whoever_takes_over(claimed):
    staged = claimed.staged(claimed.store, 3, 5)
    version = claimed.publish(claimed.store, staged)
    other = claimed.process()
    # Killed before it could write down that it published: with its mark still there, or gone.
    assert other.fence(claimed.session, claimed.table, 3) == version
    Claims(claimed.session, staged.log).add(3, Mark(staged.application, int(staged.base)))
    assert other.fence(claimed.session, claimed.table, 3) == version
    assert other.staged_tokens(claimed.session, claimed.table) == []
    assert claimed.version() == version
    assert claimed.count() == 5
    # A later claim of the same scope does not hide the earlier one.
    later = claimed.staged(other, 7, 6)
    assert claimed.publish(other, later) > version
    assert other.token(claimed.session, claimed.table) == 7
    # Taken back by hand: a token that was given once is not given again.
    claimed.session.sql(f"restore table {other.locations.sql(claimed.table.id)} to version as of {version}")
    assert claimed.process().token(claimed.session, claimed.table) == 7
    assert claimed.count() == 5


def lose(monkeypatch, *, applied: bool, first=None):
    commit, lost = jvm.commit, []

    def without_answer(*how):
        if lost:
            return commit(*how)
        lost.append(True)
        if first is not None:
            first()
        if applied:
            commit(*how)
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(jvm, "commit", without_answer)


def test_a_commit_whose_answer_is_lost_is_looked_up(claimed, monkeypatch):
    staged = claimed.staged(claimed.store, 3, 5)
    lose(monkeypatch, applied=True)
    version = claimed.publish(claimed.store, staged)
    assert version == claimed.version()
    assert claimed.count() == 5
    assert claimed.store.staged_tokens(claimed.session, claimed.table) == []


def test_a_commit_that_was_never_made_is_not_mistaken_for_somebody_elses(claimed, monkeypatch):
    staged = claimed.staged(claimed.store, 3, 5)
    name = claimed.store.locations.sql(claimed.table.id)
    lose(
        monkeypatch,
        applied=False,
        first=lambda: claimed.lab.spark.sql(f"insert into {name} values (1, date'2026-04-25', 1)"),
    )
    with pytest.raises(Py4JNetworkError):
        claimed.publish(claimed.store, staged)
    assert claimed.count() == 1
    # The attempt is given up: its own fence is a commit now, because the lost one may still be on its way.
    before, commits = claimed.version(), claimed.commits()
    assert claimed.store.fence(claimed.session, claimed.table, 3) is None
    assert claimed.commits() == commits + 1
    # It is no new content, though.
    assert claimed.version() == before
    with pytest.raises(LeaseLost):
        claimed.publish(claimed.store, staged)


def test_giving_up_before_the_commit_leaves_no_version(claimed):
    staged = claimed.staged(claimed.store, 3, 5)
    before = claimed.commits()
    assert claimed.store.fence(claimed.session, claimed.table, 3) is None
    assert claimed.commits() == before
    assert claimed.store.staged_tokens(claimed.session, claimed.table) == []
    with pytest.raises(LeaseLost):
        claimed.publish(claimed.store, staged)
    with pytest.raises(LeaseLost):
        claimed.store.stage_more(claimed.session, staged, claimed.made(1))


def test_scopes_side_by_side_do_not_fence_each_other(claimed):
    # Three days and one of another week are claimed at once; fencing the first leaves the second alone.
    wide, other = claimed.process(), claimed.process()
    many = wide.open(claimed.session, claimed.target(0, 1), 5)
    one = other.open(claimed.session, claimed.target(2, 2), 4)
    other.stage(claimed.session, one, claimed.made(3, 2))
    wide.stage(claimed.session, many, claimed.made(2, 0))
    wide.stage_more(claimed.session, many, claimed.made(2, 1))
    assert wide.staged(claimed.session, many).count() == 4
    assert claimed.process().fence(claimed.session, claimed.table, 5) is None
    claimed.publish(other, one)
    with pytest.raises(LeaseLost):
        claimed.publish(wide, many)
    assert claimed.count() == 3


def test_only_the_partitions_that_changed_are_published_and_the_rest_is_cleaned_up(claimed):
    store = claimed.store
    staged = store.open(claimed.session, claimed.target(0, 1), 3)
    store.stage(claimed.session, staged, claimed.made(2, 0))
    store.stage_more(claimed.session, staged, claimed.made(3, 1))
    version = store.publish(claimed.session, staged, staged.target.partitions[:1], NOTES, {"twice.x": "it's"})
    assert claimed.count() == 2
    assert store.remembered(claimed.session, claimed.table, "twice.x") == "it's"
    files = store.files(claimed.session, claimed.target(0, 1), version)
    assert [bool(files[partition]) for partition in staged.target.partitions] == [True, False]
    claims = Claims(claimed.session, staged.log)
    assert len(list(Path(urlsplit(claims.folder(3)).path).rglob("*.parquet"))) == len(
        [file for file in staged.added if file.partition["d"] == DAYS[0].date()]
    )


@pytest.mark.full
def test_a_merge_that_meets_a_compacted_table_starts_again(lab):
    claimed = ClaimedTable(lab, Settings(str(lab.config.root / "delta")), key=["id"], write=Merge(version="n"))
    whole = Target.of(claimed.table, Scope(Window(DAYS[1], DAYS[2])), ZoneInfo("UTC"))
    store = claimed.store
    for token, day in ((1, 0), (2, 1)):
        staged = store.open(claimed.session, whole, token)
        store.stage_changes(claimed.session, staged, claimed.made(3, day, n=token), insert_only=False)
        assert store.staged(claimed.session, staged).where(scope_filter(whole)).count() == 3
        store.publish(claimed.session, staged, whole.partitions, NOTES, {})
    staged = store.open(claimed.session, whole, 3)
    store.stage_changes(claimed.session, staged, claimed.made(1, n=3), insert_only=False)
    claimed.session.sql(f"delete from {store.locations.sql(claimed.table.id)} where id = 0")
    with pytest.raises(Conflict, match="another writer"):
        store.publish(claimed.session, staged, whole.partitions, NOTES, {})
    assert claimed.count() == 2


@pytest.mark.full
def test_a_shadow_in_sparks_own_catalog_whose_removal_was_killed_is_removed(lab, tmp_path):
    lab.spark.sql(f"create database {lab.space} location '{tmp_path}'")
    claimed = ClaimedTable(lab, Settings(None))
    claimed.publish(claimed.store, claimed.staged(claimed.store, 3, 5))
    shadow = claimed.table.named(claimed.store.shadow(claimed.table.id, "06a2wk"))
    name = claimed.store.locations.sql(shadow.id)
    for left in ("both", "name"):
        claimed.store.fork(claimed.session, claimed.table, shadow)
        (folder,) = (path for path in tmp_path.iterdir() if "06a2wk" in path.name)
        if left == "name":
            shutil.rmtree(folder)
        claimed.process().drop_shadow(claimed.session, claimed.table, shadow)
        assert (folder.exists(), claimed.session.catalog.tableExists(name)) == (False, False)
    assert claimed.count() == 5
    claimed.session.sql(f"drop database {lab.space} cascade")


def test_tables_of_sparks_own_catalog(lab, tmp_path):
    # A store with catalog = "spark" finds its tables where the catalog says.
    lab.spark.sql(f"create database {lab.space} location '{tmp_path}'")
    claimed = ClaimedTable(lab, Settings(None))
    assert not claimed.store.abilities.side_by_side
    staged = claimed.staged(claimed.store, 3, 5)
    version = claimed.publish(claimed.store, staged)
    assert claimed.session.table(f"spark_catalog.{lab.space}.t").count() == 5
    assert claimed.store.files(claimed.session, claimed.target(), version) == staged.fingerprints()
    assert claimed.store.locations.sql(TableName(("w", "a", "b"))) == "`spark_catalog`.`a`.`b`"
    assert not claimed.store.exists(claimed.session, Table(f"warehouse.{lab.space}.none"))
    claimed.session.sql(f"drop database {lab.space} cascade")
