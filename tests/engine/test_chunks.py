"""Chunks: many partitions in one job, each gated, recorded and found fresh as if it had run alone."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from twice import Day, Hour, Overwrite, Pipeline, Table, Window, days, gates
from twice.engine.chunks.options import ChunkOptions, SpotCheck
from twice.engine.operations.undo import undo
from twice.engine.plan import plan
from twice.engine.run import run_planned_step
from twice.engine.status import status
from twice.errors import GateFailed, KeyViolation, NotSeparable, OutOfScope
from twice.model.scopes import Scope
from twice.store.iceberg import grouping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.support.project import Lab
    from twice.engine.attempt.task import StepResult

pytestmark = pytest.mark.spark

FIRST = datetime(2026, 4, 1, tzinfo=timezone.utc)
GOOD = "(1, {d}, 'acme', 10), (2, {d}, 'bolt', 20)"


def day(number: int) -> Window:
    return Window(FIRST + timedelta(days=number), FIRST + timedelta(days=number + 1))


def days_of(count: int) -> Window:
    return Window(FIRST, FIRST + timedelta(days=count))


def at(number: int) -> str:
    return f"date'{(FIRST + timedelta(days=number)).date()}'"


class Chunks:
    """A source of four days, one step over it, and runs of chunks."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        values = ", ".join(GOOD.format(d=at(number)) for number in range(4))
        columns = "id bigint, d date, tenant string, n bigint"
        self.raw = lab.source("raw", columns, f"values {values}", by="d, tenant", dimensions=["tenant"])
        self.calls: list[int] = []

    def insert(self, values: str, number: int) -> None:
        self.lab.insert("raw", f"values {values.format(d=at(number))}")

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

    def run(self, pipeline: Pipeline, window: Window, **how: Any) -> StepResult:
        """Run a window as one chunk, as a backfill does."""
        dimensions = how.pop("dimensions", None)
        (stage,) = plan(pipeline, window, dimensions=dimensions)
        names = ("partial", "check_alone", "spot_check", "pool")
        chunk = ChunkOptions(**{"partial": True} | {name: how.pop(name) for name in names if name in how})
        asked = {"skip_fresh": False, "wait": 0.0, "chunk": chunk} | how
        self.last = self.lab.ledger.runs.start(pipeline.name, stage.scope)
        return run_planned_step(self.lab.runtime, pipeline, stage, self.last, **asked)

    def states(self, pipeline: Pipeline) -> dict[str, str]:
        return {found.name: found.state for step in status(self.lab.ledger, pipeline) for found in step.partitions}

    def held(self) -> dict[date, int]:
        return {row["d"]: row["n"] for row in self.lab.read("fact").groupBy("d").agg(F.sum("n").alias("n")).collect()}


@pytest.fixture
def chunks(lab) -> Chunks:
    return Chunks(lab)


def fits(number: int) -> date:
    return (FIRST + timedelta(days=number)).date()


def test_partitions_that_pass_are_published_and_the_others_are_named(chunks):
    # Given four days, one with a bad row and one with a row twice
    chunks.insert("(3, {d}, 'acme', -1)", 1)
    chunks.insert("(1, {d}, 'acme', 10)", 2)
    pipeline = chunks.pipeline(gates.range("n", min=0))
    # When they are computed in one job
    done = chunks.run(pipeline, days_of(4))
    # Then the good days are there, the bad ones are not, and each says why
    assert (done.status, done.rows) == ("published", 4)
    assert chunks.held() == {fits(0): 30, fits(3): 30}
    assert list(done.refused) == ["2026-04-02", "2026-04-03"]
    assert "“n at least 0”" in done.refused["2026-04-02"]
    assert "1 of 3 rows fail" in done.refused["2026-04-02"]
    assert "occur more than once" in done.refused["2026-04-03"]
    assert done.to_json()["refused"] == done.refused
    # And the ledger knows: status, the run's attempts, no lease left
    found = {each.name: each for step in status(chunks.lab.ledger, pipeline) for each in step.partitions}
    assert {name: each.state for name, each in found.items()} == {
        "2026-04-01": "done",
        "2026-04-02": "failed",
        "2026-04-03": "failed",
        "2026-04-04": "done",
    }
    assert "n at least 0" in found["2026-04-02"].reasons[0].text
    attempts = chunks.lab.ledger.runs.get(chunks.last).attempts
    assert [attempt.status for attempt in attempts] == ["published", "failed", "failed"]
    assert chunks.lab.ledger.leases.list() == []
    # And once the source is corrected, the day alone goes through
    chunks.lab.spark.sql(f"delete from {chunks.lab.name('raw')} where n < 0")
    assert chunks.run(pipeline, day(1)).refused == {}
    assert chunks.states(pipeline)["2026-04-02"] == "done"


def test_a_refused_partition_keeps_its_last_good_version(chunks):
    pipeline = chunks.pipeline(gates.range("n", min=0))
    chunks.run(pipeline, days_of(2))
    chunks.insert("(3, {d}, 'acme', -1)", 0)
    chunks.insert("(3, {d}, 'acme', 1)", 1)
    assert list(chunks.run(pipeline, days_of(2)).refused) == ["2026-04-01"]
    assert chunks.held() == {fits(0): 30, fits(1): 31}
    assert chunks.states(pipeline)["2026-04-01"] == "failed"


@pytest.mark.full
def test_the_good_partitions_may_all_be_unchanged(chunks):
    pipeline = chunks.pipeline(gates.range("n", min=0))
    chunks.run(pipeline, days_of(2))
    versions = chunks.lab.versions("fact")
    chunks.insert("(3, {d}, 'acme', -1)", 0)
    done = chunks.run(pipeline, days_of(2))
    assert (done.status, list(done.refused)) == ("unchanged", ["2026-04-01"])
    assert chunks.lab.versions("fact") == versions


def test_if_no_partition_passes_the_first_reason_is_the_error(chunks):
    with pytest.raises(GateFailed, match=r"2026-04-01.*row count at least 3"):
        chunks.run(chunks.pipeline(gates.row_count(min=3)), days_of(2))
    assert chunks.lab.ledger.outputs.list(chunks.lab.name("fact")) == []
    assert chunks.lab.ledger.leases.list() == []


@pytest.mark.full
def test_without_partial_one_bad_partition_refuses_all(chunks):
    chunks.insert("(1, {d}, 'acme', 10)", 2)
    with pytest.raises(KeyViolation):
        chunks.run(chunks.pipeline(), days_of(4), partial=False)
    assert not chunks.lab.exists("fact")


def test_rows_outside_the_chunk_refuse_all_of_it(chunks):
    pipeline = chunks.pipeline(work=lambda raw: raw.withColumn("d", F.date_add("d", 1)))
    with pytest.raises(OutOfScope):
        chunks.run(pipeline, days_of(2))
    assert not chunks.lab.exists("fact")


@pytest.mark.parametrize(
    "guard",
    [
        pytest.param(gates.unique("n"), id="unique"),
        pytest.param(
            gates.sql("select * from staged group by all having count(*) > 1"), id="sql", marks=pytest.mark.full
        ),
        pytest.param(gates.check(lambda rows: rows.count() == 2), id="check"),
        pytest.param(gates.not_null("n"), id="not_null", marks=pytest.mark.full),
    ],
)
def test_every_gate_judges_each_partition_by_itself(chunks, guard):
    # The same values on different days are no duplicates; on one day they are.
    chunks.insert("(2, {d}, 'bolt', 20), (5, {d}, 'bolt', null)", 1)
    done = chunks.run(chunks.pipeline(guard, key=()), days_of(3))
    assert list(done.refused) == ["2026-04-02"]
    assert sorted(chunks.held()) == [fits(0), fits(2)]


def test_a_day_is_judged_by_the_days_before_it_in_the_same_chunk(chunks):
    chunks.insert(", ".join(f"({number}, {{d}}, 'acme', 1)" for number in range(10, 20)), 3)
    done = chunks.run(chunks.pipeline(gates.row_count_change(0.5)), days_of(4))
    assert list(done.refused) == ["2026-04-04"]
    assert "in the last 3 partitions was 2" in done.refused["2026-04-04"]


@pytest.mark.full
def test_a_chunk_that_was_published_in_part_can_be_undone(chunks):
    pipeline = chunks.pipeline(gates.range("n", min=0))
    chunks.insert("(3, {d}, 'acme', -1)", 1)
    chunks.run(pipeline, days_of(3))
    undo(chunks.lab.runtime, {"p": pipeline}, chunks.last)
    assert chunks.lab.rows("fact") == []
    assert chunks.states(pipeline)["2026-04-01"] == "stale"


@pytest.mark.parametrize(
    "dimensions",
    [pytest.param(None, id="all"), pytest.param({"tenant": "acme"}, id="one tenant", marks=pytest.mark.full)],
)
def test_a_chunk_leaves_every_day_fresh_and_days_make_a_fresh_chunk(chunks, dimensions):
    pipeline = chunks.pipeline()
    asked = {"dimensions": dimensions, "skip_fresh": True}
    # Given a chunk of three days, and a fourth alone
    chunks.run(pipeline, days_of(3), **asked)
    chunks.run(pipeline, day(3), **asked)
    before, calls = chunks.lab.jobs(), len(chunks.calls)
    # Then each day is fresh alone, and all of them together, without a Spark job
    assert [chunks.run(pipeline, day(number), **asked).status for number in range(4)] == ["fresh"] * 4
    assert chunks.run(pipeline, days_of(4), **asked).status == "fresh"
    assert (chunks.lab.jobs(), len(chunks.calls)) == (before, calls)
    # And a change of one day touches no other
    chunks.insert("(7, {d}, 'acme', 1)", 1)
    assert [chunks.run(pipeline, day(number), **asked).status for number in range(3)] == ["fresh", "published", "fresh"]


def test_lookback_is_recorded_day_by_day(chunks):
    table = Table(chunks.lab.name("fact"), partition=Day("d"), dimensions=["tenant"], write=Overwrite())
    pipeline = Pipeline("p", grain=Day)

    @pipeline.step(reads={"raw": chunks.raw.window(lookback=days(1))}, writes=table, separable=True)
    def fact(raw: DataFrame, window: Window) -> DataFrame:
        return raw.where(F.col("d") >= F.lit(window.start.date()))

    window = Window(day(1).start, day(3).end)
    chunks.run(pipeline, window)
    recorded = {
        output.scope.window.start.date(): [start[:10] for start in sorted(output.inputs[0].partitions)]
        for output in chunks.lab.ledger.outputs.list(chunks.lab.name("fact"))
    }
    assert recorded == {
        fits(1): ["2026-04-01", "2026-04-02"],
        fits(2): ["2026-04-02", "2026-04-03"],
        fits(3): ["2026-04-03", "2026-04-04"],
    }
    # Given a change of the second day: it is read by the second and the third, not by the fourth
    chunks.insert("(7, {d}, 'acme', 1)", 1)
    assert chunks.run(pipeline, day(3), skip_fresh=True).status == "fresh"
    assert chunks.run(pipeline, day(2), skip_fresh=True).status == "unchanged"


@pytest.mark.full
def test_late_rows_are_read_and_recorded_as_each_day_alone_would(lab, chunks):
    # Given rows on time, one a day late, one too late for its day's run, and one that came before it happened
    landed = [(0, 10, 0), (1, 11, 1), (2, 12, 2), (3, 13, 3), (1, 20, 0), (3, 21, 0), (0, 22, 2)]
    values = ", ".join(f"({at(arrived)}, {number}, {at(happened)})" for arrived, number, happened in landed)
    raw = lab.source("landed", "d date, id bigint, at timestamp", f"values {values}", event_time="at")
    table = {"dimensions": [], "lateness": days(1), "partition": Day("day")}
    pipeline = chunks.pipeline(reads=raw, table=table, work=lambda raw: raw.select("id", F.to_date("at").alias("day")))
    # When three days are one chunk
    chunks.run(pipeline, days_of(3), check_alone=Scope(day(0)))
    # Then every day holds what its own run would have read
    assert sorted((row["day"], row["id"]) for row in lab.rows("fact")) == [
        (fits(0), 10),
        (fits(0), 20),
        (fits(1), 11),
        (fits(2), 12),
    ]
    outputs = lab.ledger.outputs.list(lab.name("fact"))
    assert [max(output.inputs[0].partitions)[:10] for output in outputs] == ["2026-04-02", "2026-04-03", "2026-04-04"]
    assert [chunks.run(pipeline, day(number), skip_fresh=True).status for number in range(3)] == ["fresh"] * 3
    assert [chunks.run(pipeline, day(number)).status for number in range(3)] == ["unchanged"] * 3


@pytest.mark.full
def test_a_table_of_hours_keeps_the_inputs_of_its_day(lab, chunks):
    table = {"partition": Hour("hour"), "dimensions": []}
    pipeline = chunks.pipeline(
        table=table, work=lambda raw: raw.select("id", F.to_timestamp("d").alias("hour")), separable=True
    )
    done = chunks.run(pipeline, days_of(2), check_alone=Scope(day(1)))
    assert (done.status, done.rows) == ("published", 4)
    assert chunks.run(pipeline, day(1), skip_fresh=True).status == "fresh"


def test_a_step_that_is_falsely_declared_separable_is_caught_before_anything_is_published(chunks):
    def rank(raw: DataFrame) -> DataFrame:
        order = Over.partitionBy("tenant").orderBy("d", "id")
        return raw.select("id", "d", "tenant", F.row_number().over(order).cast("bigint").alias("n"))

    pipeline = chunks.pipeline(work=rank, separable=True)
    with pytest.raises(
        NotSeparable, match=r"step fact is not separable: 2026-04-03 .* digest 2-.* it has 2-"
    ) as caught:
        chunks.run(pipeline, days_of(4), check_alone=Scope(day(2)))
    assert "separable=False" in caught.value.next_step
    assert caught.value.exit_code == 3
    assert chunks.lab.ledger.outputs.list(chunks.lab.name("fact")) == []
    assert not chunks.lab.exists("fact")
    assert chunks.lab.ledger.leases.list() == []


def test_a_separable_step_passes_the_comparison(chunks):
    done = chunks.run(chunks.pipeline(), days_of(4), check_alone=Scope(day(2)))
    assert (done.status, len(chunks.calls)) == ("published", 2)


@pytest.mark.full
def test_the_comparison_takes_another_day_if_gates_refused_the_one_asked_for(chunks):
    chunks.insert("(3, {d}, 'acme', -1)", 2)
    done = chunks.run(chunks.pipeline(gates.range("n", min=0)), days_of(4), check_alone=Scope(day(2)))
    assert (list(done.refused), len(chunks.calls)) == (["2026-04-03"], 2)


@pytest.mark.full
def test_last_digits_of_doubles_are_no_difference_but_other_values_are(chunks):
    def share(raw: DataFrame, *, mix: bool) -> DataFrame:
        whole = Over.partitionBy("tenant") if mix else Over.partitionBy("tenant", "d")
        return raw.withColumn("n", F.col("n") / (3 * F.sum("n").over(whole))).select("id", "d", "tenant", "n")

    apart = chunks.pipeline(separable=True, work=lambda raw: share(raw, mix=False))
    assert chunks.run(apart, days_of(4), check_alone=Scope(day(0))).status == "published"
    mixed = chunks.pipeline(separable=True, work=lambda raw: share(raw, mix=True))
    with pytest.raises(NotSeparable):
        chunks.run(mixed, days_of(4), check_alone=Scope(day(0)))


@pytest.mark.full
def test_a_solo_day_with_rows_of_other_days_is_a_difference(chunks):
    # Shifted by a day and filled up: in the chunk every row has a place, alone it has none.
    def shift(raw: DataFrame) -> DataFrame:
        moved = F.when(F.col("d") == F.lit(fits(3)), F.lit(fits(0))).otherwise(F.date_add("d", 1))
        return raw.withColumn("d", moved).select("id", "d", "tenant", "n")

    with pytest.raises((NotSeparable, OutOfScope)):
        chunks.run(chunks.pipeline(separable=True, work=shift), days_of(4), check_alone=Scope(day(0)))


@pytest.mark.full
def test_jobs_run_in_the_pool_that_was_asked_for_and_the_thread_forgets_it(chunks):
    context = chunks.lab.spark.sparkContext
    seen: list[str | None] = []

    def look(raw: DataFrame) -> DataFrame:
        seen.append(context.getLocalProperty("spark.scheduler.pool"))
        return raw.select("id", "d", "tenant", "n")

    chunks.run(chunks.pipeline(work=look), day(0), pool="backfill")
    chunks.run(chunks.pipeline(work=look), day(0))
    assert seen == ["backfill", None]
    assert context.getLocalProperty("spark.scheduler.pool") is None


@pytest.mark.full
def test_the_comparison_reads_what_the_chunk_read_also_if_the_input_has_moved_since(chunks):
    moved: list[int] = []

    def look(raw: DataFrame) -> DataFrame:
        if not moved:
            moved.append(1)
            meanwhile(lambda: chunks.insert("(9, {d}, 'acme', 9)", 0))
        return raw.select("id", "d", "tenant", "n")

    done = chunks.run(chunks.pipeline(work=look), days_of(2), check_alone=Scope(day(0)))
    assert (done.status, done.attempts, done.rows) == ("published", 1, 4)


@pytest.mark.full
def test_days_that_are_worth_a_task_each_are_made_without_a_shuffle_and_one_file_each(lab, chunks, monkeypatch):
    monkeypatch.setattr("twice.content.task_per_partition.FEW", 1)
    seen: list[bool] = []
    real = grouping.is_grouped

    def look(*about: Any) -> bool:
        seen.append(real(*about))
        return seen[-1]

    monkeypatch.setattr(grouping, "is_grouped", look)
    raw = lab.source("one", "id bigint, d date, n bigint")
    for _ in range(2):  # more than one file a day
        values = ", ".join(f"({id_}, {at(number)}, 1)" for number in range(8) for id_ in range(3))
        lab.insert("one", f"values {values}")

    def count(raw: DataFrame) -> DataFrame:
        return raw.groupBy("d", "id").agg(F.count("*").alias("n"))

    def shuffled(raw: DataFrame) -> DataFrame:
        return count(raw).repartition(2, "id")

    one = {"reads": raw, "table": {"dimensions": []}}
    pipeline = chunks.pipeline(work=count, **one)
    assert chunks.run(pipeline, days_of(8), check_alone=Scope(day(2))).status == "published"
    assert chunks.held() == {fits(number): 6 for number in range(8)}
    assert lab.read("fact.files").count() == 8
    # What the step itself moves around is gathered again before it is written
    again = chunks.run(chunks.pipeline(work=shuffled, **one), days_of(8))
    assert (again.status, seen) == ("unchanged", [True, False])


@pytest.mark.full
def test_one_chunk_that_was_compared_speaks_for_the_others_and_so_does_one_that_failed(chunks):
    spot_check = SpotCheck()
    chunks.run(chunks.pipeline(), days_of(2), check_alone=Scope(day(1)), spot_check=spot_check)
    assert len(chunks.calls) == 2
    two_more = Window(day(2).start, day(3).end)
    chunks.run(chunks.pipeline(), two_more, check_alone=Scope(day(3)), spot_check=spot_check)
    assert len(chunks.calls) == 3

    tried: list[int] = []

    def bad() -> bool:
        tried.append(1)
        raise NotSeparable("no")

    other = SpotCheck()
    for _ in range(2):
        with pytest.raises(NotSeparable):
            other.once(bad)
    assert len(tried) == 1


@pytest.mark.full
def test_days_without_rows_speak_for_nobody(chunks):
    spot_check = SpotCheck()
    empty = Window(FIRST + timedelta(days=10), FIRST + timedelta(days=14))
    chunks.run(chunks.pipeline(), empty, check_alone=Scope(day(12)), spot_check=spot_check)
    assert (len(chunks.calls), spot_check.passed) == (2, False)
    # Nor does a chunk that is fresh, or a day alone
    chunks.run(chunks.pipeline(), empty, check_alone=Scope(day(12)), spot_check=spot_check, skip_fresh=True)
    chunks.run(chunks.pipeline(), day(0), check_alone=Scope(day(0)), spot_check=spot_check)
    assert (len(chunks.calls), spot_check.passed) == (3, False)
    chunks.run(chunks.pipeline(), days_of(2), check_alone=Scope(day(1)), spot_check=spot_check)
    assert (len(chunks.calls), spot_check.passed) == (5, True)


def hourly(chunks: Chunks, *guards: Any, mix: bool = False) -> Pipeline:
    """Build a step of a day pipeline into a table by the hour of the id."""

    def by_hour(raw: DataFrame) -> DataFrame:
        when = F.to_timestamp("d") + F.make_dt_interval(hours=F.col("id"))
        total = F.sum("n").over(Over.orderBy("d", "id"))
        return raw.select(
            "id", when.alias("h"), F.when(F.col("n") < 0, -1).otherwise(total if mix else F.col("n")).alias("n")
        )

    return chunks.pipeline(*guards, table={"partition": Hour("h"), "dimensions": []}, work=by_hour, separable=True)


@pytest.mark.full
def test_of_a_day_with_refused_hours_the_others_are_compared(chunks):
    # Given days each of which has an hour that a gate refuses
    for number in range(3):
        chunks.insert("(3, {d}, 'acme', -1)", number)
    spot_check = SpotCheck()
    three = Window(FIRST, day(2).end)
    done = chunks.run(hourly(chunks, gates.range("n", min=0)), three, check_alone=Scope(day(1)), spot_check=spot_check)
    # Then that is no difference, and what passed was compared
    assert (len(done.refused), done.status, spot_check.passed) == (3, "published", True)
    # While a difference in an hour that passed is seen
    with pytest.raises(NotSeparable):
        chunks.run(hourly(chunks, gates.range("n", min=0), mix=True), three, check_alone=Scope(day(1)))


@pytest.mark.full
def test_a_day_whose_hours_were_all_refused_is_not_the_one_that_is_compared(chunks):
    chunks.lab.spark.sql(f"delete from {chunks.lab.name('raw')} where d = {at(1)}")
    spot_check = SpotCheck()
    pipeline = hourly(chunks, gates.row_count(min=1))
    done = chunks.run(pipeline, Window(FIRST, day(2).end), check_alone=Scope(day(1)), spot_check=spot_check)
    # Two hours of the days around it have rows
    assert (len(done.refused), spot_check.passed) == (24 + 22 + 22, True)
