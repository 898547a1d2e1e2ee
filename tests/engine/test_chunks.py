"""Chunks: many partitions in one job, each gated, recorded and found fresh as if it had run alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from twice import Day, Hour, Overwrite, Pipeline, Table, Window, days, gates
from twice.api import workshop
from twice.engine.plan import plan
from twice.engine.run import run_stage
from twice.engine.status import status
from twice.engine.undo import undo
from twice.engine.vouching import Vouch
from twice.errors import GateFailed, KeyViolation, NotSeparable, OutOfScope
from twice.model.scopes import Scope
from twice.store.iceberg import grouping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.job import StepResult

pytestmark = pytest.mark.spark

FIRST = datetime(2026, 4, 1, tzinfo=timezone.utc)
GOOD = "(1, {d}, 'acme', 10), (2, {d}, 'bolt', 20)"


def day(number: int) -> Window:
    return Window(FIRST + timedelta(days=number), FIRST + timedelta(days=number + 1))


def days_of(count: int) -> Window:
    return Window(FIRST, FIRST + timedelta(days=count))


def at(number: int) -> str:
    return f"date'{(FIRST + timedelta(days=number)).date()}'"


class Shop:
    """A source of four days, one step over it, and a run of a chunk."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        lab.spark.sql(
            f"create table {lab.name('raw')} (id bigint, d date, tenant string, n bigint) using iceberg "
            "partitioned by (d, tenant)"
        )
        self.raw = Table(lab.name("raw"), partition=Day("d"), dimensions=["tenant"])
        values = ", ".join(GOOD.format(d=at(number)) for number in range(4))
        lab.spark.sql(f"insert into {lab.name('raw')} values {values}")
        self.calls: list[int] = []

    def insert(self, values: str, number: int) -> None:
        self.lab.spark.sql(f"insert into {self.lab.name('raw')} values {values.format(d=at(number))}")

    def pipeline(self, *guards: Any, reads: Any = None, key: tuple[str, ...] = ("id",), **how: Any) -> Pipeline:
        contract: dict[str, Any] = {"partition": Day("d"), "dimensions": ["tenant"], "key": key, "gates": list(guards)}
        table = Table(self.lab.name("fact"), write=Overwrite(), **contract | how.pop("table", {}))
        built = Pipeline("p", grain=Day)
        work = how.pop("work", None)

        @built.step(reads={"raw": reads or self.raw}, writes=table, **how)
        def fact(raw: DataFrame) -> DataFrame:
            self.calls.append(1)
            return work(raw) if work else raw.select("id", "d", "tenant", "n")

        return built

    @contextmanager
    def shop(self) -> Iterator[Any]:
        with workshop(self.lab.config, spark=self.lab.spark, ledger=self.lab.ledger) as found:
            yield found

    def chunk(self, pipeline: Pipeline, window: Window, **how: Any) -> StepResult:
        """Run a window as one chunk, as a backfill does."""
        dimensions = how.pop("dimensions", None)
        (stage,) = plan(pipeline, window, dimensions=dimensions)
        asked = {"skip_fresh": False, "wait": 0.0, "partial": True} | how
        with self.shop() as found:
            run = found.ledger.start_run(pipeline.name, stage.scope)
            self.last = run
            return run_stage(found, pipeline, stage, run, **asked)

    def states(self, pipeline: Pipeline) -> dict[str, str]:
        return {found.name: found.state for step in status(self.lab.ledger, pipeline) for found in step.partitions}

    def held(self) -> dict[date, int]:
        return {row["d"]: row["n"] for row in self.lab.read("fact").groupBy("d").agg(F.sum("n").alias("n")).collect()}

    def jobs(self) -> int:
        return self.lab.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


@pytest.fixture
def shop(lab) -> Shop:
    return Shop(lab)


def fits(number: int) -> date:
    return (FIRST + timedelta(days=number)).date()


def test_partitions_that_pass_are_published_and_the_others_are_named(shop):
    # Given four days, one with a bad row and one with a row twice
    shop.insert("(3, {d}, 'acme', -1)", 1)
    shop.insert("(1, {d}, 'acme', 10)", 2)
    pipeline = shop.pipeline(gates.range("n", min=0))
    # When they are computed in one job
    done = shop.chunk(pipeline, days_of(4))
    # Then the good days are there, the bad ones are not, and each says why
    assert (done.status, done.rows) == ("published", 4)
    assert shop.held() == {fits(0): 30, fits(3): 30}
    assert list(done.refused) == ["2026-04-02", "2026-04-03"]
    assert "“n at least 0”" in done.refused["2026-04-02"]
    assert "1 of 3 rows fail" in done.refused["2026-04-02"]
    assert "occur more than once" in done.refused["2026-04-03"]
    assert done.to_json()["refused"] == done.refused
    # And the ledger knows: status, the run's attempts, no lease left
    found = {each.name: each for step in status(shop.lab.ledger, pipeline) for each in step.partitions}
    assert {name: each.state for name, each in found.items()} == {
        "2026-04-01": "done",
        "2026-04-02": "failed",
        "2026-04-03": "failed",
        "2026-04-04": "done",
    }
    assert "n at least 0" in found["2026-04-02"].reasons[0].text
    assert [attempt.status for attempt in shop.lab.ledger.run(shop.last).attempts] == ["published", "failed", "failed"]
    assert shop.lab.ledger.leases() == []
    # And once the source is corrected, the day alone goes through
    shop.lab.spark.sql(f"delete from {shop.lab.name('raw')} where n < 0")
    assert shop.chunk(pipeline, day(1)).refused == {}
    assert shop.states(pipeline)["2026-04-02"] == "done"


def test_a_refused_partition_keeps_its_last_good_version(shop):
    pipeline = shop.pipeline(gates.range("n", min=0))
    shop.chunk(pipeline, days_of(2))
    shop.insert("(3, {d}, 'acme', -1)", 0)
    shop.insert("(3, {d}, 'acme', 1)", 1)
    assert list(shop.chunk(pipeline, days_of(2)).refused) == ["2026-04-01"]
    assert shop.held() == {fits(0): 30, fits(1): 31}
    assert shop.states(pipeline)["2026-04-01"] == "failed"


def test_the_good_partitions_may_all_be_unchanged(shop):
    pipeline = shop.pipeline(gates.range("n", min=0))
    shop.chunk(pipeline, days_of(2))
    versions = shop.lab.versions("fact")
    shop.insert("(3, {d}, 'acme', -1)", 0)
    done = shop.chunk(pipeline, days_of(2))
    assert (done.status, list(done.refused)) == ("unchanged", ["2026-04-01"])
    assert shop.lab.versions("fact") == versions


def test_if_no_partition_passes_the_first_reason_is_the_error(shop):
    with pytest.raises(GateFailed, match=r"2026-04-01.*row count at least 3"):
        shop.chunk(shop.pipeline(gates.row_count(min=3)), days_of(2))
    assert shop.lab.ledger.outputs(shop.lab.name("fact")) == []
    assert shop.lab.ledger.leases() == []


def test_without_partial_one_bad_partition_refuses_all(shop):
    shop.insert("(1, {d}, 'acme', 10)", 2)
    with pytest.raises(KeyViolation):
        shop.chunk(shop.pipeline(), days_of(4), partial=False)
    assert not shop.lab.exists("fact")


def test_rows_outside_the_chunk_refuse_all_of_it(shop):
    pipeline = shop.pipeline(work=lambda raw: raw.withColumn("d", F.date_add("d", 1)))
    with pytest.raises(OutOfScope):
        shop.chunk(pipeline, days_of(2))
    assert not shop.lab.exists("fact")


@pytest.mark.parametrize(
    "guard",
    [
        gates.unique("n"),
        gates.sql("select * from staged group by all having count(*) > 1"),
        gates.check(lambda rows: rows.count() == 2),
        gates.not_null("n"),
    ],
    ids=["unique", "sql", "check", "not_null"],
)
def test_every_gate_judges_each_partition_by_itself(shop, guard):
    # The same values on different days are no duplicates; on one day they are.
    shop.insert("(2, {d}, 'bolt', 20), (5, {d}, 'bolt', null)", 1)
    done = shop.chunk(shop.pipeline(guard, key=()), days_of(3))
    assert list(done.refused) == ["2026-04-02"]
    assert sorted(shop.held()) == [fits(0), fits(2)]


def test_a_day_is_judged_by_the_days_before_it_in_the_same_chunk(shop):
    shop.insert(", ".join(f"({number}, {{d}}, 'acme', 1)" for number in range(10, 20)), 3)
    done = shop.chunk(shop.pipeline(gates.row_count_change(0.5)), days_of(4))
    assert list(done.refused) == ["2026-04-04"]
    assert "in the last 3 partitions was 2" in done.refused["2026-04-04"]


def test_a_chunk_that_was_published_in_part_can_be_undone(shop):
    pipeline = shop.pipeline(gates.range("n", min=0))
    shop.insert("(3, {d}, 'acme', -1)", 1)
    shop.chunk(pipeline, days_of(3))
    with shop.shop() as found:
        undo(found, {"p": pipeline}, shop.last)
    assert shop.lab.rows("fact") == []
    assert shop.states(pipeline)["2026-04-01"] == "stale"


@pytest.mark.parametrize("dimensions", [None, {"tenant": "acme"}], ids=["all", "one tenant"])
def test_a_chunk_leaves_every_day_fresh_and_days_make_a_fresh_chunk(shop, dimensions):
    pipeline = shop.pipeline()
    asked = {"dimensions": dimensions, "skip_fresh": True}
    # Given a chunk of three days, and a fourth alone
    shop.chunk(pipeline, days_of(3), **asked)
    shop.chunk(pipeline, day(3), **asked)
    before, calls = shop.jobs(), len(shop.calls)
    # Then each day is fresh alone, and all of them together, without a Spark job
    assert [shop.chunk(pipeline, day(number), **asked).status for number in range(4)] == ["fresh"] * 4
    assert shop.chunk(pipeline, days_of(4), **asked).status == "fresh"
    assert (shop.jobs(), len(shop.calls)) == (before, calls)
    # And a change of one day touches no other
    shop.insert("(7, {d}, 'acme', 1)", 1)
    assert [shop.chunk(pipeline, day(number), **asked).status for number in range(3)] == ["fresh", "published", "fresh"]


def test_lookback_is_recorded_day_by_day(shop):
    table = Table(shop.lab.name("fact"), partition=Day("d"), dimensions=["tenant"], write=Overwrite())
    pipeline = Pipeline("p", grain=Day)

    @pipeline.step(reads={"raw": shop.raw.window(lookback=days(1))}, writes=table, separable=True)
    def fact(raw: DataFrame, window: Window) -> DataFrame:
        return raw.where(F.col("d") >= F.lit(window.start.date()))

    window = Window(day(1).start, day(3).end)
    shop.chunk(pipeline, window)
    recorded = {
        output.scope.window.start.date(): [start[:10] for start in sorted(output.inputs[0].partitions)]
        for output in shop.lab.ledger.outputs(shop.lab.name("fact"))
    }
    assert recorded == {
        fits(1): ["2026-04-01", "2026-04-02"],
        fits(2): ["2026-04-02", "2026-04-03"],
        fits(3): ["2026-04-03", "2026-04-04"],
    }
    # Given a change of the second day: it is read by the second and the third, not by the fourth
    shop.insert("(7, {d}, 'acme', 1)", 1)
    assert shop.chunk(pipeline, day(3), skip_fresh=True).status == "fresh"
    assert shop.chunk(pipeline, day(2), skip_fresh=True).status == "unchanged"


def test_late_rows_are_read_and_recorded_as_each_day_alone_would(lab, shop):
    # Given rows on time, one a day late, one too late for its day's run, and one that came before it happened
    lab.spark.sql(
        f"create table {lab.name('landed')} (d date, id bigint, at timestamp) using iceberg partitioned by (d)"
    )
    landed = [(0, 10, 0), (1, 11, 1), (2, 12, 2), (3, 13, 3), (1, 20, 0), (3, 21, 0), (0, 22, 2)]
    values = ", ".join(f"({at(arrived)}, {number}, {at(happened)})" for arrived, number, happened in landed)
    lab.spark.sql(f"insert into {lab.name('landed')} values {values}")
    table = {"dimensions": [], "lateness": days(1), "partition": Day("day")}
    pipeline = shop.pipeline(
        reads=Table(lab.name("landed"), partition=Day("d"), event_time="at"),
        table=table,
        work=lambda raw: raw.select("id", F.to_date("at").alias("day")),
    )
    # When three days are one chunk
    shop.chunk(pipeline, days_of(3), solo=Scope(day(0)))
    # Then every day holds what its own run would have read
    assert sorted((row["day"], row["id"]) for row in lab.rows("fact")) == [
        (fits(0), 10),
        (fits(0), 20),
        (fits(1), 11),
        (fits(2), 12),
    ]
    outputs = lab.ledger.outputs(lab.name("fact"))
    assert [max(output.inputs[0].partitions)[:10] for output in outputs] == ["2026-04-02", "2026-04-03", "2026-04-04"]
    assert [shop.chunk(pipeline, day(number), skip_fresh=True).status for number in range(3)] == ["fresh"] * 3
    assert [shop.chunk(pipeline, day(number)).status for number in range(3)] == ["unchanged"] * 3


def test_a_table_of_hours_keeps_the_inputs_of_its_day(lab, shop):
    table = {"partition": Hour("hour"), "dimensions": []}
    pipeline = shop.pipeline(
        table=table, work=lambda raw: raw.select("id", F.to_timestamp("d").alias("hour")), separable=True
    )
    done = shop.chunk(pipeline, days_of(2), solo=Scope(day(1)))
    assert (done.status, done.rows) == ("published", 4)
    assert shop.chunk(pipeline, day(1), skip_fresh=True).status == "fresh"


def test_a_step_that_is_falsely_declared_separable_is_caught_before_anything_is_published(shop):
    def rank(raw: DataFrame) -> DataFrame:
        order = Over.partitionBy("tenant").orderBy("d", "id")
        return raw.select("id", "d", "tenant", F.row_number().over(order).cast("bigint").alias("n"))

    pipeline = shop.pipeline(work=rank, separable=True)
    with pytest.raises(
        NotSeparable, match=r"step fact is not separable: 2026-04-03 .* digest 2-.* it has 2-"
    ) as caught:
        shop.chunk(pipeline, days_of(4), solo=Scope(day(2)))
    assert "separable=False" in caught.value.to_go_on
    assert caught.value.exit_code == 3
    assert shop.lab.ledger.outputs(shop.lab.name("fact")) == []
    assert not shop.lab.exists("fact")
    assert shop.lab.ledger.leases() == []


def test_a_separable_step_passes_the_comparison(shop):
    done = shop.chunk(shop.pipeline(), days_of(4), solo=Scope(day(2)))
    assert (done.status, len(shop.calls)) == ("published", 2)


def test_the_comparison_takes_another_day_if_gates_refused_the_one_asked_for(shop):
    shop.insert("(3, {d}, 'acme', -1)", 2)
    done = shop.chunk(shop.pipeline(gates.range("n", min=0)), days_of(4), solo=Scope(day(2)))
    assert (list(done.refused), len(shop.calls)) == (["2026-04-03"], 2)


def test_last_digits_of_doubles_are_no_difference_but_other_values_are(shop):
    def share(raw: DataFrame, *, mix: bool) -> DataFrame:
        whole = Over.partitionBy("tenant") if mix else Over.partitionBy("tenant", "d")
        return raw.withColumn("n", F.col("n") / (3 * F.sum("n").over(whole))).select("id", "d", "tenant", "n")

    apart = shop.pipeline(separable=True, work=lambda raw: share(raw, mix=False))
    assert shop.chunk(apart, days_of(4), solo=Scope(day(0))).status == "published"
    mixed = shop.pipeline(separable=True, work=lambda raw: share(raw, mix=True))
    with pytest.raises(NotSeparable):
        shop.chunk(mixed, days_of(4), solo=Scope(day(0)))


def test_a_solo_day_with_rows_of_other_days_is_a_difference(shop):
    # Shifted by a day and filled up: in the chunk every row has a place, alone it has none.
    def shift(raw: DataFrame) -> DataFrame:
        moved = F.when(F.col("d") == F.lit(fits(3)), F.lit(fits(0))).otherwise(F.date_add("d", 1))
        return raw.withColumn("d", moved).select("id", "d", "tenant", "n")

    with pytest.raises((NotSeparable, OutOfScope)):
        shop.chunk(shop.pipeline(separable=True, work=shift), days_of(4), solo=Scope(day(0)))


def test_jobs_run_in_the_pool_that_was_asked_for_and_the_thread_forgets_it(shop):
    context = shop.lab.spark.sparkContext
    seen: list[str | None] = []

    def look(raw: DataFrame) -> DataFrame:
        seen.append(context.getLocalProperty("spark.scheduler.pool"))
        return raw.select("id", "d", "tenant", "n")

    shop.chunk(shop.pipeline(work=look), day(0), pool="backfill")
    shop.chunk(shop.pipeline(work=look), day(0))
    assert seen == ["backfill", None]
    assert context.getLocalProperty("spark.scheduler.pool") is None


def test_the_comparison_reads_what_the_chunk_read_also_if_the_input_has_moved_since(shop):
    moved: list[int] = []

    def look(raw: DataFrame) -> DataFrame:
        if not moved:
            moved.append(1)
            meanwhile(lambda: shop.insert("(9, {d}, 'acme', 9)", 0))
        return raw.select("id", "d", "tenant", "n")

    done = shop.chunk(shop.pipeline(work=look), days_of(2), solo=Scope(day(0)))
    assert (done.status, done.attempts, done.rows) == ("published", 1, 4)


def test_days_that_are_worth_a_task_each_are_made_without_a_shuffle_and_one_file_each(lab, shop, monkeypatch):
    monkeypatch.setattr("twice.content.spreading.FEW", 1)
    seen: list[bool] = []
    real = grouping.is_grouped

    def look(*about: Any) -> bool:
        seen.append(real(*about))
        return seen[-1]

    monkeypatch.setattr(grouping, "is_grouped", look)
    lab.spark.sql(f"create table {lab.name('one')} (id bigint, d date, n bigint) using iceberg partitioned by (d)")
    for _ in range(2):  # more than one file a day
        values = ", ".join(f"({id_}, {at(number)}, 1)" for number in range(8) for id_ in range(3))
        lab.spark.sql(f"insert into {lab.name('one')} values {values}")

    def count(raw: DataFrame) -> DataFrame:
        return raw.groupBy("d", "id").agg(F.count("*").alias("n"))

    def shuffled(raw: DataFrame) -> DataFrame:
        return count(raw).repartition(2, "id")

    one = {"reads": Table(lab.name("one"), partition=Day("d")), "table": {"dimensions": []}}
    pipeline = shop.pipeline(work=count, **one)
    assert shop.chunk(pipeline, days_of(8), solo=Scope(day(2))).status == "published"
    assert shop.held() == {fits(number): 6 for number in range(8)}
    assert lab.read("fact.files").count() == 8
    # What the step itself moves around is gathered again before it is written
    again = shop.chunk(shop.pipeline(work=shuffled, **one), days_of(8))
    assert (again.status, seen) == ("unchanged", [True, False])


def test_one_chunk_that_was_compared_speaks_for_the_others_and_so_does_one_that_failed(shop):
    vouch = Vouch()
    shop.chunk(shop.pipeline(), days_of(2), solo=Scope(day(1)), vouch=vouch)
    assert len(shop.calls) == 2
    two_more = Window(day(2).start, day(3).end)
    shop.chunk(shop.pipeline(), two_more, solo=Scope(day(3)), vouch=vouch)
    assert len(shop.calls) == 3

    tried: list[int] = []

    def bad() -> bool:
        tried.append(1)
        raise NotSeparable("no")

    other = Vouch()
    for _ in range(2):
        with pytest.raises(NotSeparable):
            other.once(bad)
    assert len(tried) == 1


def test_days_without_rows_speak_for_nobody(shop):
    vouch = Vouch()
    empty = Window(FIRST + timedelta(days=10), FIRST + timedelta(days=14))
    shop.chunk(shop.pipeline(), empty, solo=Scope(day(12)), vouch=vouch)
    assert (len(shop.calls), vouch.given) == (2, False)
    # Nor does a chunk that is fresh, or a day alone
    shop.chunk(shop.pipeline(), empty, solo=Scope(day(12)), vouch=vouch, skip_fresh=True)
    shop.chunk(shop.pipeline(), day(0), solo=Scope(day(0)), vouch=vouch)
    assert (len(shop.calls), vouch.given) == (3, False)
    shop.chunk(shop.pipeline(), days_of(2), solo=Scope(day(1)), vouch=vouch)
    assert (len(shop.calls), vouch.given) == (5, True)


def hourly(shop: Shop, *guards: Any, mix: bool = False) -> Pipeline:
    """Build a step of a day pipeline into a table by the hour of the id."""

    def by_hour(raw: DataFrame) -> DataFrame:
        when = F.to_timestamp("d") + F.make_dt_interval(hours=F.col("id"))
        total = F.sum("n").over(Over.orderBy("d", "id"))
        return raw.select(
            "id", when.alias("h"), F.when(F.col("n") < 0, -1).otherwise(total if mix else F.col("n")).alias("n")
        )

    return shop.pipeline(*guards, table={"partition": Hour("h"), "dimensions": []}, work=by_hour, separable=True)


def test_of_a_day_with_refused_hours_the_others_are_compared(shop):
    # Given days each of which has an hour that a gate refuses
    for number in range(3):
        shop.insert("(3, {d}, 'acme', -1)", number)
    vouch = Vouch()
    three = Window(FIRST, day(2).end)
    done = shop.chunk(hourly(shop, gates.range("n", min=0)), three, solo=Scope(day(1)), vouch=vouch)
    # Then that is no difference, and what passed was compared
    assert (len(done.refused), done.status, vouch.given) == (3, "published", True)
    # While a difference in an hour that passed is seen
    with pytest.raises(NotSeparable):
        shop.chunk(hourly(shop, gates.range("n", min=0), mix=True), three, solo=Scope(day(1)))


def test_a_day_whose_hours_were_all_refused_is_not_the_one_that_is_compared(shop):
    shop.lab.spark.sql(f"delete from {shop.lab.name('raw')} where d = {at(1)}")
    vouch = Vouch()
    pipeline = hourly(shop, gates.row_count(min=1))
    done = shop.chunk(pipeline, Window(FIRST, day(2).end), solo=Scope(day(1)), vouch=vouch)
    # Two hours of the days around it have rows
    assert (len(done.refused), vouch.given) == (24 + 22 + 22, True)
