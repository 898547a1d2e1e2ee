"""Effects of pipelines on real tables: owed after the publish, paid once, driven by their own state."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.provider import provider
from twice import Day, Merge, Overwrite, Pipeline, Table, Window, api, hours
from twice.api import runtime
from twice.config import load
from twice.effects import Outbox, OutcomeUnknown, Rejected, Retry
from twice.effects.outbox.relay import Relay, run
from twice.effects.paying import pay
from twice.effects.targets.http import Http
from twice.engine.plan import plan
from twice.errors import KeyViolation
from twice.ledger import open_ledger
from twice.store.sql.database import open_database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
COLUMNS = "d DATE, id BIGINT, name STRING, n BIGINT"


@pytest.fixture
def receiver():
    with provider() as found:
        yield found


class Revenue:
    """A day of revenue, and an effect after it."""

    def __init__(self, lab: Any, receiver: Any) -> None:
        self.lab, self.receiver = lab, receiver
        self.rows = [(1, "ana", 10), (2, "bob", 20)]
        self.pipeline = Pipeline("shop", grain=Day)
        self.table = Table(lab.name("revenue"), partition=Day("d"), key=["id"], write=Overwrite(), schema=COLUMNS)

        self.declare()

    def declare(self) -> None:
        """Declare the step that writes the table."""

        @self.pipeline.extract(writes=self.table)
        def revenue(window: Any) -> list[dict[str, Any]]:
            return [{"d": window.start.date(), "id": n, "name": name, "n": m} for n, name, m in self.rows]

    def run(self, day: str = DAY, **how: Any) -> Any:
        known = {"spark": self.lab.spark, "ledger": self.lab.ledger, "config": self.lab.config}
        return api.run(self.pipeline, day, **(known | how))

    def post(self, **how: Any) -> None:
        """Declare the daily post."""

        @self.pipeline.effect(
            after=self.table, to=Http(self.receiver.url), **({"on_unknown": Retry(hours(24), then="ask")} | how)
        )
        def post_revenue(rows: DataFrame, window: Any) -> dict[str, Any]:
            return {"text": f"{window}: {rows.agg({'n': 'sum'}).first()[0]}"}

    def charge(self, **how: Any) -> None:
        """Declare a charge for each row."""

        @self.pipeline.effect(after=self.table, key="id", on_unknown=Retry(hours(24), then="ask"), **how)
        def charge(rows: list[dict[str, Any]], key: str, business_key: str) -> Any:
            payload = {"payment": business_key, "amount": rows[0]["n"]}
            return Http(self.receiver.url).send(payload, key=key, timeout=5)

    def records(self) -> dict[str, Any]:
        return {record.subject.business_key or "day": record for record in self.lab.ledger.effects.list()}


@pytest.fixture
def shop(lab, receiver) -> Revenue:
    return Revenue(lab, receiver)


def test_s34_the_daily_post_goes_out_once_however_often_the_day_is_run(shop):
    shop.post()
    first, again, skipped = shop.run(), shop.run(), shop.run(skip_fresh=True)
    assert shop.receiver.calls == 1
    assert shop.receiver.payloads[0]["text"].endswith(": 30")
    assert [effect.text for effect in first.effects] == ["1 confirmed (1 called now)"]
    assert [effect.states for effect in (*again.effects, *skipped.effects)] == [{}, {}]
    # A day that is published again with other rows sends nothing, and says so
    shop.rows.append((3, "eve", 5))
    shop.run()
    assert shop.receiver.calls == 1
    assert shop.records()["day"].outdated


def test_s34_a_run_that_ended_after_its_publish_is_paid_for_by_the_next(shop):
    # Given a table that was published by a run that could not send
    shop.post(attempts=1)
    shop.receiver.trouble = ["429"]
    with pytest.raises(Rejected, match="failed"):
        shop.run()
    shop.lab.ledger.effects.resolve(shop.records()["day"].key, "failed", "try again")
    # When the day is run again, and nothing changes
    shop.pipeline.effects.clear()
    shop.post()
    (step,) = shop.run().steps
    # Then it is sent
    assert step.status == "unchanged"
    assert len(shop.receiver.payloads) == 1


def test_s35_each_payment_is_charged_once(shop):
    shop.charge(parallel=2)
    said = []
    shop.run(listener=said.append)
    # Also reported every two seconds: a slow machine hears of the first one alone
    assert [event.detail for event in said if event.state == "sending"][-1] == "charge: 2 confirmed (2 called now)"
    shop.rows.append((3, "eve", 5))
    shop.run()
    # Two at once, in any order; then the new one
    charged = [payload["payment"] for payload in shop.receiver.payloads]
    assert (sorted(charged[:2]), charged[2:]) == (["1", "2"], ["3"])
    assert set(shop.receiver.made.values()) == {1}
    assert shop.records()["3"].response == {"number": 3}
    # The key is the payment's, whatever day it is in
    (record,) = [record for record in shop.records().values() if record.subject.business_key == "1"]
    assert record.key == record.subject.key(1)


def test_a_key_that_is_null_sends_nothing(shop):
    shop.charge()
    shop.table = Table(shop.lab.name("revenue"), partition=Day("d"), write=Overwrite(), schema=COLUMNS)
    shop.pipeline = Pipeline("shop", grain=Day)

    @shop.pipeline.extract(writes=shop.table)
    def revenue(window: Any) -> list[dict[str, Any]]:
        return [{"d": window.start.date(), "id": n, "name": "x", "n": 1} for n in (1, None)]

    shop.charge()
    with pytest.raises(KeyViolation, match=r"1 rows of .* have no id"):
        shop.run()
    assert shop.receiver.calls == 0


def test_an_unknown_outcome_stops_the_run_and_not_the_publish(shop):
    shop.post(on_unknown="ask", attempts=1)
    shop.receiver.trouble = ["late"]
    with pytest.raises(OutcomeUnknown, match="not known"):
        shop.run()
    assert len(shop.lab.rows("revenue")) == 2
    assert shop.records()["day"].state == "unknown"


def test_backfills_suppress_key_by_key_and_a_person_sends_later(shop):
    shop.post()
    shop.charge()
    stages = plan(shop.pipeline, Day.unit(DAY, shop.pipeline.zone))
    shop.pipeline.effects, effects = {}, shop.pipeline.effects
    shop.run()
    shop.pipeline.effects = effects
    with runtime(shop.lab.config, spark=shop.lab.spark, ledger=shop.lab.ledger) as found:
        run = found.ledger.runs.start("shop", stages[0].scope)
        posted, charged = pay(found, shop.pipeline, stages[0], run, suppress="undeclared")
        assert (posted.states, charged.states) == ({"suppressed": 1}, {"suppressed": 2})
        # A row that comes later is charged, the others are not
        shop.rows.append((3, "eve", 5))
        shop.run()
        assert shop.receiver.payloads == [{"payment": "3", "amount": 5}]
        (sent,) = pay(found, shop.pipeline, stages[0], run, mode="send", names=["post_revenue"])
        assert sent.states == {"confirmed": 1}
        # Again, as a new generation with a key of its own
        pay(found, shop.pipeline, stages[0], run, mode="again", names=["post_revenue"])
    assert shop.records()["day"].generation == 2
    assert len(shop.receiver.made) == 3


def test_s53_personal_values_stay_out_of_the_ledger(shop):
    # Given a table with personal columns, and a receiver that repeats what it was sent
    name = shop.lab.name("revenue")
    shop.table = Table(name, partition=Day("d"), write=Overwrite(), schema=COLUMNS, personal=["name"])
    shop.pipeline = Pipeline("shop", grain=Day)
    shop.declare()

    @shop.pipeline.effect(after=shop.table, key="name", to=Http(shop.receiver.url), on_unknown="ask", attempts=2)
    def greet(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {"hello": rows[0]["name"]}

    shop.receiver.echoes, shop.receiver.trouble = True, ["400"]
    with pytest.raises(Rejected) as refused:
        shop.run()
    shop.run()
    # Then each name was sent once, and none is in the ledger or in an error
    assert sorted(payload["hello"] for payload in shop.receiver.payloads) == ["ana", "bob"]
    known = str([record.to_json() for record in shop.lab.ledger.effects.list()]) + str(refused.value)
    known += str([run.to_json() for run in shop.lab.ledger.runs.list()])
    assert "ana" not in known
    assert "bob" not in known


def test_s56_a_pruned_ledger_sends_no_second_mail(shop):
    shop.post()
    shop.run()
    report = shop.lab.ledger.admin.prune(timedelta(0))
    assert (report.effects, report.tombstones) == (0, 1)
    assert shop.records()["day"].payload is None
    shop.lab.ledger.admin.prune(timedelta(0))
    shop.run()
    shop.rows.append((3, "eve", 5))
    shop.run()
    assert shop.receiver.calls == 1


def test_s56_a_ledger_that_lost_its_memory_sends_nothing_that_the_table_knows(shop, tmp_path):
    shop.post()
    shop.charge()
    shop.run()
    calls = shop.receiver.calls
    # The next publish of the table writes down what was settled before it
    shop.run("2026-04-26")
    assert shop.receiver.calls == calls + 1  # the post: the payments were charged on the day before
    restored = open_ledger(f"sqlite:///{tmp_path}/restored.db")
    again = shop.run(ledger=restored)
    assert [effect.called for effect in again.effects] == [0, 0]
    (day,) = restored.effects.list(effect="post_revenue")
    assert (day.state, "the table knows" in day.note) == ("confirmed", True)
    assert len(restored.effects.list(effect="charge")) == 2
    # What was settled after the last publish the table does not know
    assert shop.run("2026-04-26", ledger=restored).effects[0].called == 1


@pytest.mark.full
def test_s56_nor_when_a_restored_ledger_is_asked_to_send_or_to_suppress(shop, tmp_path):
    shop.post()
    shop.run()
    shop.run("2026-04-26")
    (stage,) = plan(shop.pipeline, Day.unit(DAY, shop.pipeline.zone))
    for number, how in enumerate([{"mode": "send"}, {"suppress": "all"}]):
        restored = open_ledger(f"sqlite:///{tmp_path}/{number}.db")
        shop.pipeline.effects, effects = {}, shop.pipeline.effects
        shop.run(ledger=restored)
        shop.pipeline.effects = effects
        with runtime(shop.lab.config, spark=shop.lab.spark, ledger=restored) as found:
            pay(found, shop.pipeline, stage, restored.runs.start("shop", stage.scope), **how)
        assert [record.state for record in restored.effects.list()] == ["confirmed"]
    assert shop.receiver.calls == 2


@pytest.mark.full
def test_what_comes_late_is_sent_though_the_table_has_a_tombstone(shop):
    shop.charge()
    shop.run()
    shop.run("2026-04-26")
    shop.rows.append((3, "eve", 5))
    shop.receiver.trouble = ["400"]
    with pytest.raises(Rejected):
        shop.run()
    # A person says that it never arrived, and another one comes
    shop.lab.ledger.effects.resolve(shop.records()["3"].key, "failed", "it never arrived")
    shop.rows.append((4, "fay", 6))
    assert shop.run().effects[0].called == 2
    assert {record.state for record in shop.records().values()} == {"confirmed"}


def test_a_run_leaves_messages_about_what_it_changed_and_a_rerun_none(lab, receiver, postgres_database, tmp_path):
    (tmp_path / "twice.toml").write_text(f'[stores.serving]\ntype = "sql"\nurl = "{postgres_database}"\n')
    config = load(tmp_path / "twice.toml")
    table = Table(
        "serving.public.revenue", partition=Day("d"), key=["id"], write=Overwrite(), schema=COLUMNS,
        outbox=Outbox(to=Http(receiver.url), columns=["name", "n"]),
    )  # fmt: skip
    pipeline, rows = Pipeline("serving", grain=Day), [(1, "ana", 10), (2, "bob", 20)]

    @pipeline.extract(writes=table)
    def revenue(window: Any) -> list[dict[str, Any]]:
        return [{"d": window.start.date(), "id": n, "name": name, "n": m} for n, name, m in rows]

    def sent() -> list[tuple[str, Any]]:
        before = len(receiver.payloads)
        api.run(pipeline, DAY, spark=lab.spark, ledger=lab.ledger, config=config)
        list(run([Relay(open_database(config.stores["serving"], config.root), table)], drain=True))
        return sorted((one["change"], one["row"] and one["row"]["name"]) for one in receiver.payloads[before:])

    assert sent() == [("upsert", "ana"), ("upsert", "bob")]
    assert sent() == []
    rows[:] = [(1, "ana", 11)]
    assert sent() == [("delete", None), ("upsert", "ana")]


@pytest.mark.full
def test_of_a_table_without_partitions_the_last_unit_is_what_is_sent_about_and_all_are_suppressed(shop):
    shop.pipeline = Pipeline("shop", grain=Day)
    shop.table = Table(shop.lab.name("people"), key=["id"], write=Merge(version="n"), schema=COLUMNS)
    shop.declare()
    shop.post()
    how = {"spark": shop.lab.spark, "ledger": shop.lab.ledger, "config": shop.lab.config}
    api.run(shop.pipeline, from_=DAY, to="2026-04-28", **how)
    (sent,) = shop.lab.ledger.effects.list()
    assert (str(sent.subject.scope), shop.receiver.calls) == ("2026-04-27/2026-04-28", 1)
    stages = plan(
        shop.pipeline, Window(Day.parse(DAY, shop.pipeline.zone), Day.parse("2026-04-28", shop.pipeline.zone))
    )
    with runtime(shop.lab.config, spark=shop.lab.spark, ledger=shop.lab.ledger) as found:
        run_id = found.ledger.runs.start("shop", stages[0].scope)
        pay(found, shop.pipeline, stages[0], run_id, suppress="all")
    found_states = Counter(record.state for record in shop.lab.ledger.effects.list())
    assert found_states == {"confirmed": 1, "suppressed": 2}
