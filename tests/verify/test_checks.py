"""Each check passes on a healthy pipeline, and fails on one with the fault that it is about."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import functions as F

from twice import InsertOnly, Pipeline, days, gates
from twice.errors import UsageError
from twice.verify.checks import ALL
from twice.verify.running import make

pytestmark = pytest.mark.spark


def per_customer(orders):
    return orders.groupBy("d", "customer").agg(F.count("*").alias("orders"), F.max("amount").alias("most"))


def test_a_healthy_pipeline_passes(world):
    sales = world.table(gates=[gates.not_null("orders"), gates.range("orders", min=1)])
    trial = world.trial(world.pipeline(per_customer, sales))
    found = {check.name: make(check, trial) for check in ALL if check.name in ("run-twice", "gates")}
    assert found["run-twice"].summary == "1 table, run twice: same rows, no new version"
    assert found["gates"].summary == "2 gates, each of which refuses a broken result"
    assert {outcome.status for outcome in found.values()} == {"passed"}


@pytest.mark.full
def test_a_healthy_pipeline_passes_every_check_and_production_is_untouched(world):
    sales = world.table(gates=[gates.not_null("orders"), gates.range("orders", min=1)])
    pipeline = world.pipeline(per_customer, sales)
    trial = world.trial(pipeline)
    with world.lab.untouched("orders"):
        found = {check.name: make(check, trial) for check in ALL if check.name in HERE}
    assert {name: outcome.status for name, outcome in found.items() if outcome.status != "passed"} == {
        "duplicates": "not run",
        "late": "not run",
        "effects": "not run",
    }
    # Nothing of production was written.
    assert not world.lab.exists("sales")
    assert world.lab.ledger.runs.list() == []


HERE = ("run-twice", "deterministic", "order", "empty", "restate", "duplicates", "late", "schema", "effects", "gates")


@pytest.mark.full
def test_s23_a_second_run_that_makes_other_rows(world):
    calls = itertools.count(1)

    def numbered(orders):
        return per_customer(orders).withColumn("run", F.lit(next(calls)))

    found = world.check("run-twice", world.pipeline(numbered, world.table()))
    assert found.status == "failed"
    (finding,) = found.findings
    assert finding.evidence.matches == {"run": 0.0}
    assert finding.evidence.kinds == {"run": {"value": 5}}
    assert "after the second run" in finding.what
    assert finding.repeat == "twice verify sales --for 2026-04-25 --check run-twice --seed 1"


def test_s23_rows_that_depend_on_their_order(world):
    def listed(orders):
        return orders.groupBy("d").agg(F.collect_list("order_id").alias("ids"), F.lit("all").alias("customer"))

    found = world.check("deterministic", world.pipeline(listed, world.table()))
    assert found.status == "failed"
    (finding,) = found.findings
    assert "order" in finding.evidence.kinds["ids"]
    assert "collect_list (test_checks.py:" in finding.cause
    assert finding.what == "two clean runs differ: the second one ran with shuffled input"


def test_s23_rows_that_no_two_runs_agree_on(world):
    calls = itertools.count(1)

    def numbered(orders):
        return per_customer(orders).withColumn("run", F.lit(next(calls)))

    found = world.check("deterministic", world.pipeline(numbered, world.table()))
    assert found.findings[0].what == "two clean runs on the same input differ"


@pytest.mark.full
def test_a_declared_step_is_not_compared(world):
    def sampled(orders):
        return orders.groupBy("d").agg(F.collect_list("order_id").alias("ids"), F.lit("all").alias("customer"))

    pipeline = world.pipeline(sampled, world.table(), nondeterministic="a preview")
    found = world.check("deterministic", pipeline)
    assert found.status == "not run"
    assert "declared as not repeatable" in found.summary


def test_s27_rows_that_depend_on_which_unit_is_run_first(world):
    def first_of(orders):
        return orders.groupBy("customer").agg(F.min("d").alias("d"))

    table = world.table(partition=None, key=["customer"], write=InsertOnly(on_conflict="keep"))
    found = world.check("order", world.pipeline(first_of, table))
    assert found.status == "failed"
    assert "newer unit first" in found.findings[0].what


def test_a_step_that_fails_on_an_empty_day(world):
    def first_order(orders):
        first = orders.agg(F.min("order_id")).first()[0] + 0
        return per_customer(orders).withColumn("first", F.lit(first))

    found = world.check("empty", world.pipeline(first_order, world.table()))
    assert found.status == "failed"
    assert "it fails on an empty input" in found.findings[0].what


@pytest.mark.full
def test_an_empty_day_that_a_gate_refuses(world):
    found = world.check("empty", world.pipeline(per_customer, world.table(gates=[gates.row_count(min=1)])))
    assert found.status == "passed"
    assert found.summary.startswith("per_customer refused: ")


@pytest.mark.full
def test_an_empty_day_that_only_a_later_gate_refuses(world):
    pipeline, sales = world.pipeline(per_customer, world.table()), world.table()
    best = world.table("best", key=["d"], gates=[gates.row_count(min=1)])

    @pipeline.step(reads={"sales": sales}, writes=best)
    def follows(sales):
        return sales.groupBy("d").agg(F.max("most").alias("most"))

    found = world.check("empty", pipeline)
    assert found.status == "passed", found.findings
    assert found.summary.startswith("1 steps leave nothing of the emptied unit; follows refused: ")


@pytest.mark.full
def test_a_unit_that_does_not_change_back(world):
    calls = itertools.count(1)

    def numbered(orders):
        return per_customer(orders).withColumn("run", F.lit(next(calls)))

    found = world.check("restate", world.pipeline(numbered, world.table()))
    assert found.status == "failed"
    assert "not what a clean run makes of it" in found.findings[0].what


@pytest.mark.parametrize("healthy", [pytest.param(True, marks=pytest.mark.full), False])
def test_rows_that_are_delivered_twice(world, healthy):
    def counted(orders):
        return per_customer(orders.dropDuplicates(["order_id"]) if healthy else orders)

    pipeline = world.pipeline(counted, world.table(), reads=world.orders(key=["order_id"]))
    found = world.check("duplicates", pipeline)
    assert found.status == ("passed" if healthy else "failed")
    if not healthy:
        assert "delivered twice" in found.findings[0].what


@pytest.mark.full
@pytest.mark.parametrize("healthy", [True, False])
def test_rows_that_come_late(world, healthy):
    def by_day(orders):
        return orders.groupBy(F.to_date("ordered_at").alias("d")).agg(F.count("*").alias("orders"))

    how = {"key": ["d"], "lateness": days(1)}
    table = world.table(**how) if healthy else world.table(**how, partition=None, write=InsertOnly(on_conflict="keep"))
    found = world.check("late", world.pipeline(by_day, table, reads=world.orders(event_time="ordered_at")))
    assert found.status == ("passed" if healthy else "failed")


@pytest.mark.full
def test_a_hash_of_all_columns_moves_when_one_is_added(world):
    def hashed(orders):
        return orders.select("*", F.xxhash64(*orders.columns).alias("hash"))

    found = world.check("schema", world.pipeline(hashed, world.table(key=["order_id"])))
    assert found.status == "failed"
    assert list(found.findings[0].evidence.matches) == ["hash"]


@pytest.mark.parametrize("healthy", [True, pytest.param(False, marks=pytest.mark.full)])
def test_effects_are_recorded_and_say_the_same(world, healthy):
    calls = itertools.count(1)
    pipeline = world.pipeline(per_customer, world.table())
    sent = []

    class Receiver:
        honours_keys = True

        def send(self, payload, *, key, timeout):
            sent.append(payload)

    @pipeline.effect(after=world.table(), to=Receiver(), on_unknown="ask")
    def post(rows):
        return {"rows": rows.count(), **({} if healthy else {"call": next(calls)})}

    found = world.check("effects", pipeline)
    assert found.status == ("passed" if healthy else "failed")
    assert sent == []
    if healthy:
        assert found.summary == "2 calls, none of them again in a second run"
    else:
        assert "two clean runs send different payloads" in found.findings[0].what


@pytest.mark.full
def test_a_function_of_on_change_is_not_called_either(world):
    called = []
    pipeline = world.pipeline(per_customer, world.table())

    class Receiver:
        honours_keys = True

        def send(self, payload, *, key, timeout):
            called.append((payload, key, timeout))

    def correct(old, response, new):
        called.append((old, response, new))

    @pipeline.effect(after=world.table(), to=Receiver(), on_unknown="ask", on_change=correct)
    def post(rows):
        return {"rows": rows.count()}

    assert world.check("restate", pipeline).status == "passed"
    assert called == []


def test_a_unit_without_rows_is_refused_though_the_one_before_has_some(world):
    pipeline = world.pipeline(per_customer, world.table())
    with pytest.raises(UsageError, match="no input of sales has rows for 2026-04-27") as error:
        world.trial(pipeline, day="2026-04-27")
    assert error.value.next_step == "choose one that has: --for 2026-04-26 or --for 2026-04-25 or --for 2026-04-24"


@pytest.mark.full
def test_gates_on_dimensions_on_wide_bounds_and_with_code_that_breaks(world):
    def sound(rows):
        return rows.agg(F.sum("orders")).first()[0] > 0

    wide = gates.range("most", max=10**12)
    table = world.table(dimensions=["customer"], gates=[gates.accepted("customer", ["a", "b", "c"]), wide])
    assert world.check("gates", world.pipeline(per_customer, table)).findings == ()
    found = world.check("gates", world.pipeline(per_customer, world.table(gates=[gates.check(sound)])))
    assert (found.status, found.summary) == ("passed", "1 gates, each of which refuses a broken result")


def test_gates_that_cannot_fail(world):
    def anything(rows):
        return True

    weak = [gates.row_count(min=0), gates.check(anything), gates.sql("select * from staged where orders < -5000")]
    strong = [gates.accepted("customer", ["a", "b", "c"]), gates.unique("customer"), gates.row_count(max=50)]
    found = world.check("gates", world.pipeline(per_customer, world.table(gates=[*weak, *strong])))
    assert [finding.what for finding in found.findings] == [
        "the gate `row count at least 0` passed every broken result",
        "the gate `check anything` passed every broken result",
    ]


@pytest.mark.full
def test_steps_of_a_pipeline_are_blamed_apart(world):
    calls = itertools.count(1)
    pipeline = Pipeline("sales", grain=world.pipeline(per_customer, world.table("x")).grain)
    sales, best = world.table("sales"), world.table("best")

    @pipeline.step(reads={"orders": world.orders()}, writes=sales)
    def numbered(orders):
        return per_customer(orders).withColumn("run", F.lit(next(calls)))

    @pipeline.step(reads={"sales": sales}, writes=best)
    def follows(sales):
        return sales

    found = world.check("run-twice", pipeline)
    assert [finding.step for finding in found.findings] == ["numbered"]
