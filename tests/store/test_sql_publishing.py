"""Staging tables, claims and the one transaction that publishes, on every kind of SQL database."""

from __future__ import annotations

import sqlite3
import threading
from datetime import date

import pytest
import sqlalchemy as sa
from pyspark.sql import types as T

from tests.store.databases import COLUMNS, FIRST, SECOND, columns, sqlite_place, two_days
from tests.support.counting import fetched
from twice import InsertOnly, Merge, Overwrite, Table, Whole
from twice.errors import Conflict, LeaseLost, TransientError
from twice.model.scopes import Scope
from twice.store.sql.database import begin_sqlite
from twice.store.sql.read import fingerprints
from twice.store.sql.schema import bookkeeping, conditions, tables
from twice.store.sql.write import publishing, staging

FEW = [(FIRST, 1, "a"), (FIRST, 2, "b"), (SECOND, 3, "c")]
MERGED = columns(d=T.DateType(), id=T.LongType(), name=T.StringType(), _twice_window=T.StringType())
SHOWN = [("2026-04-25", 1, "a"), ("2026-04-25", 2, "b"), ("2026-04-26", 3, "c")]


def live(place, table, days=2):
    target = two_days(table, days)
    with place.database.look() as connection:
        described = place.database.table(table.id, place.database.columns(connection, table.id))
        found = fingerprints.live(connection, place.database, described, target, target.partitions)
        known = bookkeeping.known_partitions(connection, bookkeeping.tables_of(place.database, table.id), target)
    return list(staging.files_of(target, found, known).values())


def test_a_publish_shows_the_rows_counts_the_version_and_drops_the_stage(place):
    table = place.table()
    staged = place.staged(table, 1, FEW)
    assert place.rows(table) == []
    assert place.left() == ["twice_stage_1_mart"]

    assert place.publish(staged, remember={"newest": "x"}) == "1"

    assert place.rows(table) == SHOWN
    assert place.left() == []
    assert live(place, table) == ["token:1", "token:1"] == list(staged.files().values())
    assert place.publish(place.staged(table, 2, FEW[:2])) == "2"
    assert place.rows(table) == SHOWN[:2]
    assert live(place, table) == ["token:2", ""]


def test_only_the_named_partitions_are_replaced(place):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))
    staged = place.staged(table, 2, [(FIRST, 7, "new"), (SECOND, 8, "not asked for")])

    place.publish(staged, staged.target.partitions[:1])

    assert place.rows(table) == [("2026-04-25", 7, "new"), ("2026-04-26", 3, "c")]
    assert live(place, table) == ["token:2", "token:1"]


def test_rows_outside_of_the_scope_stay(place):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))

    place.publish(place.staged(table, 2, [(FIRST, 9, "x")], days=1))

    assert place.rows(table) == [("2026-04-25", 9, "x"), ("2026-04-26", 3, "c")]


def test_an_empty_result_empties_the_scope(place):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))
    place.publish(place.staged(table, 2, []))
    assert place.rows(table) == []
    assert live(place, table) == ["", ""]


def test_a_fenced_claim_can_neither_publish_nor_discard_nor_open_again(place):
    table = place.table()
    staged = place.staged(table, 1, FEW)
    assert publishing.fence(place.database, table.id, 1) is None
    assert place.left() == []

    with pytest.raises(LeaseLost, match="claim 1 was taken over"):
        place.publish(staged)
    with pytest.raises(LeaseLost):
        publishing.discard(place.database, staged, {})
    with pytest.raises(LeaseLost):
        staging.open_staging(place.database, staged.target, 1)
    assert place.rows(table) == []


def test_a_claim_that_was_fenced_before_it_opened_cannot_open(place):
    table = place.table()
    place.opened(table, 1)
    assert publishing.fence(place.database, table.id, 2) is None
    with pytest.raises(LeaseLost):
        place.opened(table, 2)


def test_fencing_what_has_landed_returns_its_version_for_good(place):
    table = place.table()
    for token in (1, 2, 3):
        place.publish(place.staged(table, token, FEW[:token]))
    assert [publishing.fence(place.database, table.id, token) for token in (1, 2, 3, 3)] == ["1", "2", "3", "3"]
    assert place.rows(table) == SHOWN


def test_fencing_in_a_database_without_any_bookkeeping_does_nothing(place):
    assert publishing.fence(place.database, place.table().id, 1) is None


def test_a_stage_that_was_opened_before_the_answer_was_lost_is_opened_anew(place):
    table = place.table()
    place.staged(table, 1, FEW)
    staged = place.staged(table, 1, FEW[:1])
    place.publish(staged)
    assert place.rows(table) == SHOWN[:1]


@pytest.mark.parametrize(
    "statement",
    [
        "update mart set name = 'touched' where id = 1",
        "delete from mart where id = 1",
        "insert into mart (d, id, name) values ('2026-04-25', 99, 'by hand')",
    ],
    ids=["edited", "deleted", "added"],
)
@pytest.mark.parametrize("settle", ["publish", "discard"])
def test_a_change_by_hand_between_claim_and_publish_is_a_conflict(place, statement, settle):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))
    staged = place.staged(table, 2, FEW)
    place.sql(statement)
    by_hand = place.rows(table)

    with pytest.raises(Conflict, match=r"2026-04-25.*changed by another writer"):
        place.publish(staged) if settle == "publish" else publishing.discard(place.database, staged, {})

    assert place.rows(table) == by_hand
    assert live(place, table)[0].startswith("found:")
    assert live(place, table)[1] == "token:1"


def test_a_change_by_hand_outside_of_the_scope_is_none_of_our_business(place):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))
    staged = place.staged(table, 2, FEW[:1], days=1)
    place.sql("update mart set name = 'theirs' where id = 3")
    place.publish(staged)
    assert place.rows(table) == [SHOWN[0], ("2026-04-26", 3, "theirs")]


def test_disjoint_scopes_are_staged_side_by_side(place):
    table = place.table()
    first = place.staged(table, 1, FEW[:2], days=1)
    both = two_days(table)
    second_target = type(both)(table, both.partitions[1], both.partitions[1:], both.zone)
    second = staging.open_staging(place.database, second_target, 2)
    second.schema = COLUMNS
    place.fill(second, FEW[2:])
    assert place.publish(second) == "1"
    assert place.publish(first) == "2"
    assert place.rows(table) == SHOWN


def test_discard_keeps_the_version_and_remembers(place):
    table = place.table()
    place.publish(place.staged(table, 1, FEW))
    staged = place.staged(table, 2, FEW)
    publishing.discard(place.database, staged, {"newest": "2026"})
    with place.database.look() as connection:
        entry = bookkeeping.read_entry(connection, bookkeeping.tables_of(place.database, table.id), table.id)
    assert (entry.version, entry.token, dict(entry.properties)) == (1, 1, {"newest": "2026"})
    assert place.left() == []
    with pytest.raises(LeaseLost):
        place.publish(staged)


def test_a_merge_replaces_the_rows_of_its_keys_and_adds_the_others(place):
    table = place.table(partition=None, key=["id"], write=Merge(version="d"))
    schema = MERGED
    first = place.staged(table, 1, [(FIRST, 1, "a", "w1"), (FIRST, 2, "b", "w1")], schema=schema)
    first.replaces = False
    place.publish(first)
    second = place.staged(table, 2, [(SECOND, 2, "b2", "w2"), (SECOND, 3, "c", "w2")], schema=schema)
    second.replaces = False
    assert place.publish(second) == "2"
    assert place.rows(table, "id, name") == [(1, "a"), (2, "b2"), (3, "c")]
    assert live(place, table) == ["token:2"] == list(second.files().values())


def test_postgres_leaves_a_newer_row_alone_and_refuses_the_merge(pg):
    table = pg.table(partition=None, key=["id"], write=Merge(version="d"))
    schema = MERGED
    first = pg.staged(table, 1, [(SECOND, 1, "new", "w2")], schema=schema)
    first.replaces = False
    pg.publish(first)
    for row in [(FIRST, 1, "older", "w2"), (SECOND, 1, "disputed", "w1")]:
        staged = pg.staged(table, pg.sql("select max(token) + 1 from twice_claims")[0][0], [row], schema=schema)
        staged.replaces = False
        with pytest.raises(Conflict, match="1 rows are staged, but the table took 0"):
            pg.publish(staged)
    corrected = pg.staged(table, 9, [(SECOND, 1, "corrected", "w2")], schema=schema)
    corrected.replaces = False
    pg.publish(corrected)
    assert pg.rows(table, "name") == [("corrected",)]


def test_insert_only_inserts_and_never_touches_a_key_that_is_there(place):
    table = place.table(partition=None, key=["id"], write=InsertOnly())
    for token, rows in ((1, FEW[:1]), (2, FEW[1:])):
        staged = place.staged(table, token, rows)
        staged.replaces, staged.insert_only = False, True
        place.publish(staged)
    assert place.rows(table) == SHOWN
    again = place.staged(table, 3, [(FIRST, 1, "other content"), (FIRST, 4, "d")])
    again.replaces, again.insert_only = False, True
    with pytest.raises(Conflict, match="2 rows are staged, but the table took 1"):
        place.publish(again)
    assert place.rows(table) == SHOWN


def test_a_whole_table_is_replaced(place):
    table = place.table(partition=None, key=["id"], write=Whole())
    place.publish(place.staged(table, 1, FEW))
    place.publish(place.staged(table, 2, [(SECOND, 5, "only")]))
    assert place.rows(table) == [("2026-04-26", 5, "only")]


def test_s10_one_tenant_is_replaced_and_the_others_stay(place):
    schema = columns(d=T.DateType(), tenant=T.StringType(), id=T.LongType())
    table = place.table(dimensions=["tenant"], key=["id"])
    place.publish(place.staged(table, 1, [(FIRST, "acme", 1), (FIRST, "it's", 1)], schema=schema))
    both = two_days(table)
    scope = type(both.scope)(both.scope.window, (("tenant", "it's"),))
    target = type(both).of(table, scope, both.zone)
    staged = staging.open_staging(place.database, target, 2)
    staged.schema = schema
    place.fill(staged, [(FIRST, "it's", 2), (FIRST, "acme", 3), (FIRST, None, 4)])
    assert staged.strays[0].rows == 2
    place.fill(staged, [])
    place.publish(staged)
    assert place.rows(table, "tenant, id") == [("it's", 2), ("acme", 1)]


def test_rows_outside_the_scope_are_named(place):
    staged = place.staged(place.table(), 1, [(date(2026, 5, 1), 1, "late"), (None, 2, "nowhere"), (FIRST, 3, "ours")])
    assert [(stray.rows, stray.values) for stray in staged.strays] == [(2, ("d=2026-05-01", "d=None"))]
    assert list(staged.counts.values()) == [1]


def test_when_little_differs_only_the_difference_is_written(pg):
    table = pg.table()
    rows = [(FIRST, number, f"n{number}") for number in range(100)]
    pg.publish(pg.staged(table, 1, rows, days=1))
    before = dict(pg.rows(table, "id, xmin::text"))
    changed = [(d, i, "changed" if i == 50 else name) for d, i, name in rows if i != 7] + [(FIRST, 500, "new")]

    pg.publish(pg.staged(table, 2, changed, days=1))

    after = dict(pg.rows(table, "id, xmin::text"))
    assert {i for i in after if before.get(i) != after[i]} == {50, 500}
    assert pg.rows(table, "id, name") == sorted(((i, name) for _, i, name in changed), key=str)
    assert live(pg, table, 1) == ["token:2"]

    pg.publish(pg.staged(table, 3, [(FIRST, number, "all new") for number in range(100)], days=1))
    assert {name for (name,) in pg.rows(table, "name")} == {"all new"}
    assert len({writer for (writer,) in pg.rows(table, "xmin::text")}) == 1
    assert live(pg, table, 1) == ["token:3"]


@pytest.mark.parametrize(
    "write", [Overwrite(), Merge(version="d"), InsertOnly()], ids=lambda write: type(write).__name__
)
def test_postgres_inserts_in_the_order_of_the_key_however_rows_were_staged(pg, write):
    table = pg.table(write=write)
    rows = [(day, number * 37 % 100, "x", "w1") for number in range(100) for day in (SECOND, FIRST)]
    staged = pg.staged(table, 1, rows, schema=MERGED)
    staged.replaces, staged.insert_only = isinstance(write, Overwrite), isinstance(write, InsertOnly)

    pg.publish(staged)

    as_they_lie = pg.sql("select d, id from mart order by ctid")
    assert as_they_lie == sorted(as_they_lie)
    assert len(as_they_lie) == 200


@pytest.mark.parametrize("step", [1, 3001], ids=["in order", "in no order"])
def test_many_rows_are_sorted_only_if_most_of_them_are_in_no_order(pg, step):
    table, count = pg.table(), 10_000
    staged = pg.opened(table, 1)
    # The last ten are not where they belong, whatever the order of the others is.
    number = f"case when n < {count - 10} then n::bigint * {step} % {count - 10} else {2 * count} - n end"
    every = f"generate_series(0, {count - 1})"
    pg.sql(f"insert into twice_stage_1_mart (d, id, name) select '2026-04-25', {number}, 'x' from {every} n")
    staging.look(pg.database, staged)

    pg.publish(staged)

    lying = [number for (number,) in pg.sql("select id from mart order by ctid")]
    assert len(set(lying)) == count
    assert (lying == sorted(lying)) == (step != 1)


@pytest.mark.parametrize(("before", "during"), [("1MB", "64MB"), ("256MB", "256MB")])
def test_a_sort_of_postgres_gets_some_memory_and_no_less_than_the_server_gives(pg, before, during):
    name = pg.sql("select current_database()")[0][0]
    pg.sql(f"alter database {name} set work_mem = '{before}'")
    pg.database.rest()  # new connections read the settings of a database
    table = pg.table()
    tables.prepare(pg.database, table, COLUMNS)
    pg.sql("create table settings (work_mem text)")
    pg.sql(
        "create function note() returns trigger language plpgsql as "
        "'begin insert into settings values (current_setting(''work_mem'')); return null; end'"
    )
    pg.sql("create trigger t after insert on mart execute function note()")
    pg.publish(pg.staged(table, 1, FEW))
    assert pg.sql("select work_mem from settings") == [(during,)]
    assert pg.sql("show work_mem") == [(before,)]


def test_freezing_and_vacuuming_do_not_make_rows_look_touched(pg):
    table = pg.table()
    pg.publish(pg.staged(table, 1, FEW))
    with pg.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("vacuum (freeze, full) mart")
        connection.exec_driver_sql("vacuum (freeze) mart")
    assert live(pg, table) == ["token:1", "token:1"]


def lose_the_answer(monkeypatch, place, *, applied):
    """Let the next commit of a change land, or not, and lose its answer either way."""
    state = {"armed": True}

    def commit(self):
        if state["armed"] and self.connection.get_execution_options().get("twice_write"):
            state["armed"] = False
            if applied:
                real_commit(self)
            else:
                self.rollback()
            raise sa.exc.OperationalError("COMMIT", {}, OSError("server closed the connection unexpectedly"))
        return real_commit(self)

    real_commit = sa.engine.RootTransaction.commit
    monkeypatch.setattr(sa.engine.RootTransaction, "commit", commit)


@pytest.mark.parametrize("applied", [True, False])
def test_s07_a_lost_answer_to_the_commit_is_looked_up_by_token(place, monkeypatch, applied):
    table = place.table()
    staged = place.staged(table, 1, FEW)
    lose_the_answer(monkeypatch, place, applied=applied)
    if applied:
        assert place.publish(staged) == "1"
        assert place.rows(table) == SHOWN
    else:
        with pytest.raises(TransientError, match="closed the connection"):
            place.publish(staged)
        assert place.rows(table) == []
        assert place.publish(staged) == "1"


def test_s07_an_answer_lost_together_with_the_database_is_left_to_the_next_run(place, monkeypatch):
    table = place.table()
    staged = place.staged(table, 1, FEW)
    lose_the_answer(monkeypatch, place, applied=True)
    broken = pytest.MonkeyPatch()

    def unreachable(*_, **__):
        raise TransientError("unreachable")

    broken.setattr(bookkeeping, "claim_state", fail_after_first(bookkeeping.claim_state, unreachable))
    try:
        with pytest.raises(Conflict, match="got no answer") as found:
            place.publish(staged)
    finally:
        broken.undo()
    assert "the next run finds out" in found.value.unchanged
    assert publishing.fence(place.database, table.id, 1) == "1"


def fail_after_first(real, failing):
    calls = iter([real])

    def call(*args, **how):
        return next(calls, failing)(*args, **how)

    return call


def test_s07_a_reader_never_sees_the_day_missing_or_mixed(pg):
    table = pg.table()
    rows = [(FIRST, number, "v0") for number in range(300)]
    pg.publish(pg.staged(table, 1, rows, days=1))
    seen, stop = set(), threading.Event()

    def read():
        with pg.database.engine.connect() as connection:
            while not stop.is_set():
                with connection.begin():
                    found = connection.exec_driver_sql("select count(*), min(name), max(name) from mart").one()
                seen.add(tuple(found))

    reader = threading.Thread(target=read)
    reader.start()
    for version in range(1, 6):
        staged = pg.opened(table, version + 1, days=1)
        name = staging.stage_table(pg.database, staged).name
        pg.sql(f"insert into {name} select d, id, 'v{version}' from mart")
        staging.look(pg.database, staged)
        pg.publish(staged)
    stop.set()
    reader.join()
    assert seen <= {(300, f"v{version}", f"v{version}") for version in range(6)}
    assert len(seen) > 1


def rows_of_a_day(count: int, day: date = FIRST) -> list[tuple[object, ...]]:
    return [(day, number, f"n{number}") for number in range(count)]


def seen(place, table: Table) -> dict[Scope, str]:
    """Fingerprint two days of a table by reading it row by row."""
    with place.database.look() as connection:
        live = place.database.table(table.id, place.database.columns(connection, table.id))
        target = two_days(table)
        inside = conditions.in_partitions(live, target, target.partitions, place.database.dialect)
        return fingerprints.by_content(connection, place.database, live, target, target.partitions, inside)


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """A SQLite database that counts how many rows are hashed, in all and while its write lock is held."""
    place, usual = sqlite_place(tmp_path), fingerprints.Marks.step
    counts = {"rows": 0, "locked": 0}

    def step(marks, *row):
        counts["rows"] += 1
        probe = sqlite3.connect(place.database.url.database, timeout=0)
        try:
            probe.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            counts["locked"] += 1
        finally:
            probe.close()
        usual(marks, *row)

    monkeypatch.setattr(fingerprints.Marks, "step", step)
    return place, counts


def test_sqlite_adds_up_rows_itself_and_never_under_its_lock(locked):
    place, counts = locked
    table = place.table()
    place.publish(place.staged(table, 1, rows_of_a_day(20)))
    counts["rows"] = 0
    place.publish(place.staged(table, 2, rows_of_a_day(30)))
    assert counts == {"rows": 20 + 20 + 30, "locked": 0}  # when it opened, before its lock, and what was staged
    with fetched(place.database.engine) as counted:
        staged = place.staged(table, 3, rows_of_a_day(25))
        place.publish(staged)
    # No answer of the database holds the rows themselves
    assert max(rows for _, rows in counted.answers) <= 5
    # What was written down is what a reader of every row would find
    assert seen(place, table)[staged.target.partitions[0]] == known(place, table)[staged.target.partitions[0]]


def test_a_merge_into_sqlite_looks_at_the_rows_it_replaces_under_the_lock_and_at_no_others(locked):
    place, counts = locked
    table = place.table(write=Merge(version="name"))
    place.publish(place.staged(table, 1, rows_of_a_day(40)))
    staged = place.opened(table, 2)
    staged.replaces = False
    place.fill(staged, [(FIRST, 3, "new"), (FIRST, 100, "new"), (SECOND, 3, "new")])
    counts["locked"] = 0
    place.publish(staged)
    assert counts["locked"] == 1
    assert known(place, table) == seen(place, table)
    assert [fingerprints.rows_of(text) for text in seen(place, table).values()] == [41, 1]


def test_a_commit_between_look_and_lock_is_seen(tmp_path):
    place = sqlite_place(tmp_path)
    table = place.table()
    place.publish(place.staged(table, 1, rows_of_a_day(2)))
    staged, left = place.staged(table, 2, rows_of_a_day(3)), ["by hand"]

    def meddle(connection):
        if connection.get_execution_options().get("twice_write") and left:
            meddler = sqlite3.connect(place.database.url.database)
            meddler.execute("UPDATE mart SET name = ? WHERE id = 1", (left.pop(),))
            meddler.commit()
            meddler.close()
        begin_sqlite(connection)

    sa.event.remove(place.database.engine, "begin", begin_sqlite)
    sa.event.listen(place.database.engine, "begin", meddle)
    with pytest.raises(Conflict, match="changed by another writer"):
        place.publish(staged)
    assert ("2026-04-25", 1, "by hand") in place.rows(table)


def test_a_table_of_sqlite_with_a_trigger_is_fingerprinted_as_the_trigger_leaves_it(tmp_path):
    place = sqlite_place(tmp_path)
    table = place.table()
    place.publish(place.staged(table, 1, rows_of_a_day(1)))
    place.sql("CREATE TRIGGER t AFTER INSERT ON mart BEGIN UPDATE mart SET name = 'triggered' WHERE id = new.id; END")
    place.publish(place.staged(table, 2, rows_of_a_day(2)))
    assert [row[2] for row in place.rows(table)] == ["triggered", "triggered"]
    assert known(place, table) == seen(place, table)


def known(place, table: Table) -> dict[Scope, str]:
    """Return the fingerprints that the last publishes wrote down."""
    with place.database.look() as connection:
        found = bookkeeping.known_partitions(
            connection, bookkeeping.tables_of(place.database, table.id), two_days(table)
        )
    return {partition: text for partition, (_, text) in found.items()}


def test_many_tenants_outside_of_the_scope_are_counted_and_a_few_are_named(place):
    table = place.table(dimensions=["name"])
    with fetched(place.database.engine) as counted:
        staged = place.staged(
            table, 1, [(FIRST, n, f"t{n:02}") for n in range(40)] + [(FIRST, n, None) for n in range(3)]
        )
        assert staged.counts == {staged.target.partitions[0]: 40}
        assert (staged.strays[0].rows, staged.strays[0].values) == (3, ("d=2026-04-25, name=None",))
    assert max(rows for text, rows in counted.answers if "stage" in text) <= 2
