"""Outbox, relay and inbox: written with the rows, sent until answered, applied once; whoever is killed."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pyspark.sql import types as T

from tests.store import databases
from tests.store.databases import COLUMNS, FIRST, SECOND, columns
from tests.support.provider import Provider, provider
from twice import InsertOnly, Merge, Table, days, failpoints
from twice.effects import Http, Inbox, KeyUsed, NotSent, Outbox, Rejected
from twice.effects.outbox.relay import Relay, run
from twice.errors import DefinitionError, SchemaRefused, StoreRefused, TransientError, UsageError
from twice.store.sql.outbox import outbox
from twice.store.sql.store import SqlStore

ROWS = [(FIRST, 1, "a"), (FIRST, 2, "b"), (SECOND, 3, "c")]


class Receiver:
    """Answers in the order of a script, then with success; remembers what it got."""

    honours_keys = True

    def __init__(self, *script: Exception) -> None:
        self.script, self.got = list(script), []
        self.lock = threading.Lock()

    def send(self, payload: Any, *, key: str, timeout: float) -> object:
        with self.lock:
            self.got.append((key, payload))
            if self.script:
                error = self.script.pop(0)
                error.headers = {"Retry-After": "0"}
                raise error
        return {"ok": True}


@pytest.fixture
def pg(postgres_database) -> databases.SqlDatabase:
    return databases.postgres_place(postgres_database)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


class Serving:
    """A table with an outbox, published without Spark."""

    def __init__(self, pg: databases.SqlDatabase, to: Any, name: str = "mart", **how: Any) -> None:
        contract = {name: how.pop(name) for name in ("write", "personal") if name in how}
        self.pg, self.table = pg, pg.table(name, outbox=Outbox(to=to, **how), **contract)
        self._tokens = itertools.count(1)

    def publish(self, *rows: tuple[object, ...]) -> None:
        self.pg.publish(self.pg.staged(self.table, next(self._tokens), list(rows)))

    @property
    def relay(self) -> Relay:
        return Relay(self.pg.database, self.table)

    def messages(self, *states: str) -> list[tuple[str, int, Any]]:
        return [(m.change, m.key["id"], m.row and m.row.get("name")) for m in self.relay.messages(states)]


@pytest.fixture
def serving(pg, receiver) -> Serving:
    return Serving(pg, receiver)


def test_a_publish_leaves_a_message_for_each_row_that_it_adds_changes_or_removes(serving):
    serving.publish(*ROWS)
    assert serving.messages() == [("upsert", 1, "a"), ("upsert", 2, "b"), ("upsert", 3, "c")]
    serving.publish(*ROWS)
    assert len(serving.messages()) == 3
    serving.publish((FIRST, 1, "a"), (FIRST, 2, "new"), (FIRST, 9, "z"))
    assert serving.messages()[3:] == [("delete", 3, None), ("upsert", 2, "new"), ("upsert", 9, "z")]
    # What was, comes back: a change of its own, with an id of its own
    serving.publish(*ROWS)
    found = serving.relay.messages()
    assert len({message.id for message in found}) == len(found) == 9
    assert found[0].key == {"d": "2026-04-25", "id": 1}
    assert found[0].row == {"d": "2026-04-25", "id": 1, "name": "a"}


def test_the_same_publish_after_a_crash_leaves_the_same_ids(serving, monkeypatch):
    monkeypatch.setenv("TWICE_FAILPOINT", "publish.ready:raise")
    failpoints.reset()
    with pytest.raises(TransientError):
        serving.publish(*ROWS)
    monkeypatch.delenv("TWICE_FAILPOINT")
    assert (serving.messages(), serving.pg.rows(serving.table)) == ([], [])
    serving.publish(*ROWS)
    first = [message.id for message in serving.relay.messages()]
    # A database that was restored to before publishes the same version again
    serving.pg.sql("truncate mart, twice_outbox")
    serving.pg.sql("update twice_tables set version = 0")
    serving.publish(*ROWS)
    assert [message.id for message in serving.relay.messages()] == first


def test_what_merges_and_inserts_change(pg, receiver):
    schema = columns(d=COLUMNS["d"].dataType, id=COLUMNS["id"].dataType, name=COLUMNS["name"].dataType,
                     _twice_window=COLUMNS["name"].dataType)  # fmt: skip
    for write, expected in ((Merge(version="name"), ("upsert", 1, "b")), (InsertOnly(), None)):
        table = pg.table(type(write).__name__.lower(), write=write, partition=None, outbox=Outbox(to=receiver))
        for token, rows in enumerate(([(FIRST, 1, "a", "w")], [(FIRST, 1, "b", "w"), (FIRST, 2, "c", "w")]), 1):
            stage = pg.opened(table, token, schema=schema)
            stage.replaces, stage.insert_only = False, isinstance(write, InsertOnly)
            pg.fill(stage, [row for row in rows if not (stage.insert_only and token == 2 and row[1] == 1)])
            pg.publish(stage)
        found = [(m.change, m.key["id"], m.row["name"]) for m in Relay(pg.database, table).messages()]
        assert found == [("upsert", 1, "a"), *filter(None, [expected]), ("upsert", 2, "c")]
        assert "_twice_window" not in Relay(pg.database, table).messages()[0].row


def test_personal_columns_stay_at_home_unless_they_are_named(pg, receiver):
    quiet = Serving(pg, receiver, "quiet", personal=["name"])
    quiet.publish(*ROWS)
    assert quiet.relay.messages()[0].row == {"d": "2026-04-25", "id": 1}
    # A change that messages do not carry is none
    quiet.publish((FIRST, 1, "other"), *ROWS[1:])
    assert len(quiet.messages()) == 3
    named = Serving(pg, receiver, "named", personal=["name"], columns=["name"])
    named.publish(*ROWS)
    assert named.relay.messages()[0].row == {"name": "a"}


def test_a_wide_table_and_a_name_with_a_quote(pg, receiver):
    names = ['it\'s "x"', *(f"c{number}" for number in range(120))]
    schema = columns(
        d=COLUMNS["d"].dataType, id=COLUMNS["id"].dataType, **dict.fromkeys(names, COLUMNS["name"].dataType)
    )
    table = pg.table('o"dd %s', outbox=Outbox(to=receiver))
    pg.publish(pg.staged(table, 1, [(FIRST, 1, *("é" for _ in names))], schema=schema))
    (done,) = list(run([Relay(pg.database, table)], drain=True))
    assert done.state == "sent"
    assert receiver.got[0][1]["row"] == {"d": "2026-04-25", "id": 1, **dict.fromkeys(names, "é")}


def test_the_relay_sends_each_message_and_then_has_nothing_to_do(serving, receiver):
    serving.publish(*ROWS)
    assert [done.state for done in run([serving.relay], drain=True)] == ["sent"] * 3
    assert {key for key, _ in receiver.got} == {message.id for message in serving.relay.messages()}
    assert sorted(body["row"]["name"] for _, body in receiver.got) == ["a", "b", "c"]
    assert list(run([serving.relay], drain=True)) == []
    assert serving.relay.counts() == {"sent": 3}


def test_about_one_row_messages_go_out_in_order_and_a_dead_one_holds_back_its_own_row_only(pg):
    receiver = Receiver(Rejected("400"))
    serving = Serving(pg, receiver, parallel=1)
    serving.publish((FIRST, 1, "a"))
    serving.publish((FIRST, 1, "b"))
    serving.publish((FIRST, 1, "b"), (FIRST, 2, "c"))
    assert [done.state for done in run([serving.relay], drain=True)] == ["dead", "sent"]
    assert serving.messages("pending", "dead") == [("upsert", 1, "a"), ("upsert", 1, "b")]
    dead = serving.relay.messages(("dead",))[0]
    assert dead.error == "400"
    # A person lets it go out again: then the later one follows
    assert serving.relay.resolve([dead.id], send=True, note="mended") == 1
    assert [done.message.row["name"] for done in run([serving.relay], drain=True)] == ["a", "b"]
    assert serving.relay.messages(id_=dead.id[:8])[0].note == "mended"
    # What was sent stays sent
    assert serving.relay.resolve([dead.id, "nothing"], send=True, note="again") == 0


def test_a_message_that_is_skipped_lets_the_next_one_go(pg):
    serving = Serving(pg, Receiver(Rejected("400")), parallel=1)
    serving.publish((FIRST, 1, "a"))
    serving.publish((FIRST, 1, "b"))
    assert [done.state for done in run([serving.relay], drain=True)] == ["dead"]
    serving.relay.resolve([serving.relay.messages(("dead",))[0].id], send=False, note="never mind")
    assert [done.message.row["name"] for done in run([serving.relay], drain=True)] == ["b"]
    assert serving.relay.counts() == {"skipped": 1, "sent": 1}


def test_a_receiver_that_does_not_answer_is_tried_again_and_given_up_at_last(pg):
    receiver = Receiver(TimeoutError("slow"), TimeoutError("slow"))
    serving = Serving(pg, receiver, attempts=3)
    serving.publish(ROWS[0])
    assert [done.state for done in run([serving.relay], drain=True)] == ["pending", "pending", "sent"]
    assert len({key for key, _ in receiver.got}) == 1
    receiver.script = [TimeoutError("slow\x00\ud800") for _ in range(3)]
    serving.publish((FIRST, 1, "b"))
    assert [done.state for done in run([serving.relay], drain=True)] == ["pending", "pending", "dead"]
    (dead,) = serving.relay.messages(("dead",))
    assert (dead.attempts, dead.error) == (3, "slow?")


def test_a_receiver_that_is_away_costs_no_message(pg):
    receiver = Receiver(*(NotSent("closed") for _ in range(20)))
    serving = Serving(pg, receiver, attempts=2)
    serving.publish(ROWS[0])
    assert [done.state for done in run([serving.relay], drain=True)] == ["pending"] * 20 + ["sent"]


@pytest.mark.parametrize("first", [[], [NotSent("closed")], [TimeoutError("slow")]])
def test_a_refusal_is_never_taken_for_a_message_that_arrived(pg, first):
    """A 422 is what many receivers answer to a bad field, also at the second try."""
    serving = Serving(pg, Receiver(*first, KeyUsed("422")))
    serving.publish(ROWS[0])
    assert [done.state for done in run([serving.relay], drain=True)][-1] == "dead"


def test_values_keep_their_digits_and_their_zone(pg, receiver):
    types = {"n": T.DecimalType(20, 4), "at": T.TimestampType(), "raw": T.BinaryType(), "x": T.DoubleType()}
    schema = columns(d=T.DateType(), id=T.LongType(), **types)
    table = pg.table(outbox=Outbox(to=receiver))
    moment = datetime(2026, 4, 25, 12, tzinfo=timezone.utc)
    row = (FIRST, 1, Decimal("1234567890123456.7891"), moment, b"\x00\xff", float("nan"))
    # Whatever the session of the publisher is set to
    pg.sql(f"alter database {pg.database.url.database} set timezone = 'Europe/Berlin'")
    pg.sql(f"alter database {pg.database.url.database} set bytea_output = 'escape'")
    pg.database.rest()
    pg.publish(pg.staged(table, 1, [row], schema=schema))
    (message,) = Relay(pg.database, table).messages()
    assert message.row == {
        "d": "2026-04-25", "id": 1, "n": "1234567890123456.7891", "at": "2026-04-25T12:00:00+00:00",
        "raw": "\\x00ff", "x": "NaN",
    }  # fmt: skip


def test_a_tombstone_is_a_delete(pg, receiver):
    text, flag = T.StringType(), T.BooleanType()
    schema = columns(d=T.DateType(), id=T.LongType(), name=text, gone=flag, _twice_window=text)
    write = Merge(version="name", tombstone="gone")
    table = pg.table(write=write, partition=None, outbox=Outbox(to=receiver, columns=["id"]))
    versions = [(FIRST, 1, "a", False, "w"), (FIRST, 1, "b", True, "w"), (FIRST, 1, "c", None, "w")]
    for token, row in enumerate(versions, 1):
        stage = pg.opened(table, token, schema=schema)
        stage.replaces = False
        pg.fill(stage, [row])
        pg.publish(stage)
    found = [(message.change, message.row) for message in Relay(pg.database, table).messages()]
    assert found == [("upsert", {"id": 1}), ("delete", None), ("upsert", {"id": 1})]


def test_a_message_whose_number_is_lower_but_came_later_is_sent(serving):
    """Numbers are given before commit: a relay that reads `seq > last` would lose it."""
    serving.publish(ROWS[0])
    box = outbox(serving.pg.database, serving.table.id)
    slow = {"id": "slow", "table_name": "mart", "key": {"id": 8}, "change": "upsert", "payload": {}}
    with serving.pg.database.engine.connect() as connection, connection.begin():
        connection.execute(box.insert().values(**slow))
        fast = "insert into twice_outbox (id, table_name, key, change) values ('fast', 'mart', '{}', 'delete')"
        serving.pg.sql(fast)
        assert {done.message.id for done in run([serving.relay], drain=True)} >= {"fast"}
    assert [done.message.id for done in run([serving.relay], drain=True)] == ["slow"]


def test_two_relays_share_the_messages(pg, receiver):
    serving = Serving(pg, receiver, parallel=4)
    serving.publish(*((FIRST, number, "x") for number in range(200)))
    with ThreadPoolExecutor(2) as pool:
        sent = [len(found) for found in pool.map(lambda _: list(run([serving.relay], drain=True)), range(2))]
    assert sum(sent) == 200
    assert len({key for key, _ in receiver.got}) == len(receiver.got) == 200


def test_relays_that_run_at_once_keep_the_order_of_each_row(pg, receiver):
    serving = Serving(pg, receiver, parallel=2)
    for version in range(10):
        serving.publish(*((FIRST, number, str(version)) for number in range(4)))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: list(run([serving.relay], drain=True)), range(3)))
    list(run([serving.relay], drain=True))  # one may have found all rows locked
    for number in range(4):
        came = [body["row"]["name"] for _, body in receiver.got if body["key"]["id"] == number]
        assert came == [str(version) for version in range(10)]


def test_old_messages_that_were_sent_are_removed(serving):
    serving.publish(*ROWS)
    list(run([serving.relay], drain=True))
    serving.publish((FIRST, 7, "new"))
    serving.pg.sql("update twice_outbox set changed_at = now() - interval '8 days'")
    assert serving.relay.prune() == 3
    # What was not sent is never too old
    assert set(serving.relay.counts()) == {"pending"}


def test_a_relay_that_is_stopped_records_what_was_answered(pg):
    stop = threading.Event()

    class Impatient(Receiver):
        def send(self, payload: Any, *, key: str, timeout: float) -> object:
            stop.set()
            return super().send(payload, key=key, timeout=timeout)

    serving = Serving(pg, Impatient(), parallel=1)
    serving.publish(*ROWS)
    assert len(list(run([serving.relay], stop=stop))) == 1
    assert serving.relay.counts() == {"sent": 1, "pending": 2}


class Consumer(Provider):
    """A consumer behind HTTP that applies each message once, by its inbox, to a table of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(honours_keys=False)
        self.database = url.replace("postgresql+psycopg", "postgresql")
        self.inbox = Inbox("billing")
        with psycopg.connect(self.database) as connection:
            self.inbox.create(connection)
            connection.execute("create table if not exists applied (id bigint, name text)")


def consume(consumer: Consumer) -> Callable[..., Any]:
    carry_out = consumer.answer

    def answer(key: str, body: bytes) -> Any:
        message = json.loads(body)
        with psycopg.connect(consumer.database) as connection:
            if consumer.inbox.is_new(connection, message["id"]):
                values = (message["key"]["id"], (message["row"] or {}).get("name"))
                connection.execute("insert into applied values (%s, %s)", values)
        return carry_out(key, body)

    return answer


def relay_in_child(url: str, to: str, fail: str = "", at: int = 1, *, parallel: int = 2) -> int:
    """Run the relay in a process of its own; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        if fail:
            os.environ |= {"TWICE_FAILPOINT": f"{fail}:kill", "TWICE_FAILPOINT_AT": str(at)}
        failpoints.reset()
        serving = Serving(databases.postgres_place(url), Http(to), parallel=parallel)
        list(run([serving.relay], drain=True))
        code = 0
    finally:
        os._exit(code)


@pytest.mark.crash
def test_s36_every_message_arrives_and_is_applied_once_whenever_the_relay_is_killed(pg, postgres_database):
    serving = Serving(pg, Receiver())
    consumer, repeats = Consumer(postgres_database), 0
    with provider() as server:
        consumer_answer = consume(consumer)
        server.answer = consumer_answer
        for seed in range(12):
            random_ = random.Random(seed)
            rows = [(FIRST, number, f"{seed}.{number}") for number in range(5)]
            serving.publish(*rows)
            point, at = random_.choice(["outbox.locked", "outbox.sent"]), random_.randint(1, 3)
            print(f"seed {seed}: killed at {point}, time {at}")
            before = consumer.calls
            assert relay_in_child(postgres_database, server.url, point, at) == -signal.SIGKILL
            assert relay_in_child(postgres_database, server.url) == 0
            repeats += consumer.calls - before - 5
    assert serving.relay.counts() == {"sent": 60}
    with psycopg.connect(consumer.database) as connection:
        applied = Counter(connection.execute("select id, name from applied").fetchall())
    assert applied == Counter({(number, f"{seed}.{number}"): 1 for seed in range(12) for number in range(5)})
    # Some did arrive twice, or there was nothing to drop
    assert repeats > 0


def test_the_inbox_knows_what_was_applied_on_every_kind_of_connection(pg, tmp_path, postgres_database):
    inbox = Inbox("billing")
    engine = pg.database.engine
    with engine.begin() as connection:
        inbox.create(connection)
    with engine.begin() as connection:
        assert [inbox.is_new(connection, "m1") for _ in range(2)] == [True, False]
        # Another consumer has a memory of its own
        assert Inbox("mail").is_new(connection, "m1")
    # Work that was rolled back is not applied
    with engine.connect() as connection:
        assert inbox.is_new(connection, "m2")
        connection.rollback()
        assert inbox.is_new(connection, "m2")
    with psycopg.connect(postgres_database.replace("+psycopg", "")) as raw:
        assert [inbox.is_new(raw, name) for name in ("m1", "m3")] == [False, True]
        raw.execute("update twice_inbox set applied_at = now() - interval '91 days' where id = 'm3'")
        assert inbox.prune(raw, days(90)) == 1
        raw.commit()
        raw.autocommit = True
        with pytest.raises(UsageError, match="commits every statement"):
            inbox.is_new(raw, "m4")
        with raw.transaction():
            assert inbox.is_new(raw, "m4")
    with closing(sqlite3.connect(tmp_path / "app.db")) as lite:
        inbox.create(lite)
        assert [inbox.is_new(lite, "m1") for _ in range(2)] == [True, False]
        lite.execute("update twice_inbox set applied_at = datetime('now', '-91 days')")
        assert inbox.is_new(lite, "m2")
        assert inbox.prune(lite, days(90)) == 1
        lite.commit()
    for own in (engine, sa.create_engine(f"sqlite:///{tmp_path}/app.db")):
        alone = own.connect().execution_options(isolation_level="AUTOCOMMIT")
        with alone, pytest.raises(UsageError, match="commits every statement"):
            inbox.is_new(alone, "m5")


def test_two_consumers_of_one_message_apply_it_once(pg):
    inbox = Inbox("billing")
    with pg.database.engine.begin() as connection:
        inbox.create(connection)
    both = threading.Barrier(2)

    def apply(_number: int) -> bool:
        with pg.database.engine.begin() as connection:
            both.wait(10)
            return inbox.is_new(connection, "m1")

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(apply, range(2))) == [False, True]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Outbox(to="x"), "must be a receiver"),
        (lambda: Outbox(to=Receiver(), columns="name"), "must be a list"),
        (lambda: Outbox(to=Receiver(), keep=3), r"must be a duration such as days\(7\)"),
        (lambda: Outbox(to=Receiver(), parallel=0), "parallel=0 must be 1 or more"),
        (lambda: Outbox(to=Receiver(), timeout="30"), "must be a number of seconds"),
        (lambda: Outbox(to=Receiver(), columns=[1]), "must be a text"),
        (lambda: Table("a.b.c", outbox=Outbox(to=Receiver())), "needs the business key"),
        (lambda: Table("a.b.c", key=["Mail"], personal=["mail"], outbox=Outbox(to=Receiver())), "would carry Mail"),
        (lambda: Table("a.b.c", key=["id"], outbox="x"), "must be an Outbox"),
        (lambda: Inbox(""), "must be a name"),
        (lambda: Inbox("billing", table='x"; drop'), "letters, digits and underscores"),
    ],
)
def test_bad_declarations(make, said):
    with pytest.raises(DefinitionError, match=said):
        make()


def test_bad_use(pg, receiver, tmp_path):
    with pytest.raises(UsageError, match="has no outbox"):
        Relay(pg.database, pg.table())
    with pytest.raises(SchemaRefused, match="carries total, which the table does not have"):
        pg.opened(Serving(pg, receiver, columns=["total"]).table, 1)
    with pg.database.engine.begin() as connection, pytest.raises(UsageError, match="a message's id must be a text"):
        Inbox("billing").is_new(connection, 7)
    lite = databases.sqlite_place(tmp_path)
    with pytest.raises(StoreRefused, match="an outbox needs a table in Postgres"):
        SqlStore(lite.database).abilities.require(lite.table(outbox=Outbox(to=receiver)))


def test_a_shadow_sends_nothing(pg, receiver):
    table = pg.table(outbox=Outbox(to=receiver))
    shadow = table.named(table.id.beside("shadow"))
    pg.publish(pg.staged(shadow, 1, ROWS))
    assert not Relay(pg.database, table).exists()
