"""Backfills on real tables: whole, in parts, again, and only what is needed."""

from __future__ import annotations

import pytest

from tests.backfill.conftest import Shop, day, january
from tests.support.project import FULL
from twice import gates

pytestmark = pytest.mark.spark


@pytest.mark.full
def test_a_backfill_makes_every_partition_in_few_jobs_and_again_does_nothing(shop):
    shop.land(10)
    summary = shop.backfill()
    assert (summary.status, summary.exit_code) == ("done", 0)
    assert [(tally.step, tally.done, tally.rows) for tally in summary.tallies] == [("facts", 10, 40), ("sums", 10, 30)]
    # Steps that are separable share jobs
    assert len(shop.lab.ledger.backfills.chunks.list(summary.backfill)) == 2
    assert len(shop.lab.rows("sums")) == 30
    # Again: nothing to do, without any Spark job
    before = shop.lab.jobs()
    again = shop.backfill()
    assert (again.status, again.backfill, again.exit_code) == ("nothing to do", "", 0)
    assert shop.lab.jobs() == before
    # And a day made by a chunk is fresh for a run of its own
    assert [step.status for step in shop.lab.run(shop.pipeline, day(3), skip_fresh=True).steps] == ["fresh", "fresh"]
    # What somebody else lands later is seen
    shop.more(3, 4, rows=2)
    assert [tally.total for tally in shop.backfill().tallies] == [1, 1]


@pytest.mark.slow(reason="six ways to make the same days")
def test_s27_forward_backward_shuffled_in_parallel_and_in_chunks_equal_a_loop_over_dates(lab, monkeypatch):
    # A month; `make test` takes its first days
    end = 32 if FULL else 3
    loop = Shop(lab, "loop_")
    loop.land(end - 1)
    loop.loop(1, end)
    ways = {"back_": {"order": "backward", "parallel": 3, "chunk": 8 if FULL else 1}, "auto_": {}}
    for prefix, how in ways.items():
        shop = Shop(lab, prefix)
        assert shop.backfill(1, end, **how).status == "done"
        assert shop.digests() == loop.digests(), prefix
    # Shuffled: a few days here and there, one by one and together, then what is left
    shop = Shop(lab, "shuffled_")
    for first, after in ((28, 30), (3, 4), (17, 23), (9, 10)) if FULL else ((2, 3),):
        assert shop.backfill(first, after, chunk=1, parallel=2).status == "done"
    assert shop.backfill(1, end, chunk=5).status == "done"
    assert shop.digests() == loop.digests()
    if FULL:
        # A task per day, as for days that have many rows
        with monkeypatch.context() as patched:
            patched.setattr("twice.content.task_per_partition.FEW", 1)
            shop = Shop(lab, "tasks_")
            assert shop.backfill(1, end).status == "done"
            assert shop.digests() == loop.digests()
        # Made again, nothing changes
        versions = lab.versions("auto_facts")
        assert Shop(lab, "auto_").backfill(1, end, only=("all",)).status == "done"
        assert lab.versions("auto_facts") == versions


def test_s28_one_date_a_month_ago_equals_what_the_daily_run_makes(lab):
    daily, late = Shop(lab, "daily_"), Shop(lab, "late_")
    daily.land(31)
    daily.loop(3, 4)
    assert late.backfill(3, 4).status == "done"
    assert late.digests() == daily.digests()


@pytest.mark.full
def test_s32_one_bad_day_does_not_stop_the_rest_and_the_summary_says_what_to_do_next(shop):
    shop.land(5)
    summary = shop.backfill(1, 6, shop.build(bad=[4]), chunk=5)
    assert (summary.status, summary.exit_code) == ("partly", 3)
    facts, sums = summary.tallies
    assert (facts.done, facts.failed, sums.done, sums.blocked) == (4, 1, 4, 1)
    assert [(failure.step, failure.span, failure.blocked) for failure in summary.failures] == [
        ("facts", day(4), False),
        ("sums", day(4), True),
    ]
    assert "this day is rotten" in summary.failures[0].reason
    assert summary.next_step == f"twice backfill start shop --from {day(4)} --to {day(5)} --chunk 5"
    # The days around it are there, and its own is neither empty nor half
    assert {row["d"].isoformat() for row in shop.lab.rows("sums")} == {day(n) for n in range(1, 6) if n != 4}
    # The command of the summary makes what is left, and only that
    shop.notes.clear()
    assert shop.backfill(4, 5).status == "done"
    assert [note.span for note in shop.told("chunk started")] == [day(4), day(4)]


def test_s33_after_a_fix_that_changes_three_days_downstream_rebuilds_three_days(shop):
    shop.land(8)
    shop.backfill(1, 9)
    before = shop.digests()
    summary = shop.backfill(1, 9, shop.build(fixed=[2, 3, 7]))
    assert [(tally.step, tally.done) for tally in summary.tallies] == [("facts", 8), ("sums", 3)]
    changed = {key for key, value in shop.digests().items() if value != before[key]}
    assert changed == {(step, str(january(n, n + 1))) for step in ("facts", "sums") for n in (2, 3, 7)}


@pytest.mark.full
def test_partitions_that_fail_their_gates_are_left_out_and_listed(shop):
    shop.land(6)
    shop.lab.spark.sql(f"delete from {shop.raw.name} where d = date'{day(4)}'")
    pipeline = shop.build(gates=[gates.row_count(min=1)])
    summary = shop.backfill(1, 7, pipeline, steps=("facts",), chunk=6)
    assert (summary.status, summary.tallies[0].done, summary.tallies[0].failed) == ("partly", 5, 1)
    assert [(failure.span, "row count" in failure.reason) for failure in summary.failures] == [(day(4), True)]
    # Only it is failed, and only it is tried again
    shop.notes.clear()
    assert shop.backfill(1, 7, pipeline, steps=("facts",)).status == "partly"
    assert [note.span for note in shop.told("chunk started")] == [day(4)]


@pytest.mark.full
def test_a_step_that_was_wrongly_called_separable_is_made_one_by_one(lab):
    shop = Shop(lab)
    shop.land(5)
    # The day in the middle is empty: it would prove nothing
    lab.spark.sql(f"delete from {shop.raw.name} where d = date'{day(3)}'")
    honest = shop.pipeline
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    def running(facts):
        return facts.select("d", F.col("id").alias("customer"), F.sum("n").over(Over.orderBy("id")).alias("n"))

    liar = shop.build()
    del liar.steps["sums"]
    liar.step(reads={"facts": shop.facts}, writes=shop.sums, separable=True, name="sums")(running)
    summary = shop.backfill(1, 6, liar, chunk=5)
    assert summary.status == "done"
    (split,) = shop.told("split")
    assert split.text.startswith("one partition per job from here on")
    alone = [row["n"] for row in lab.rows("sums", f"d = date'{day(5)}'")]
    assert min(alone) == 16 * 7
    assert honest.find("sums").separable is None


def lying(shop):
    """Build a step that says that it keeps days apart, and adds them up."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    from twice import Day, Pipeline

    liar = Pipeline("shop", grain=Day)

    @liar.step(reads={"raw": shop.raw}, writes=shop.facts, separable=True)
    def facts(raw):
        return raw.withColumn("n", F.sum("n").over(Over.orderBy("id")))

    return liar


@pytest.mark.full
def test_with_chunks_of_any_size_too_what_is_made_one_by_one_stays_so(shop):
    shop.land(6)
    summary = shop.backfill(1, 7, lying(shop), parallel=1)
    assert summary.status == "done"
    # However short the jobs of single days are
    spans = [note.span for note in shop.told("chunk started")]
    assert spans == [f"{day(1)} … {day(6)} (6)", *(day(number) for number in range(1, 7))]
    assert min(row["n"] for row in shop.lab.rows("facts", f"d = date'{day(6)}'")) == 20 * 7
    assert shop.lab.ledger.backfills.get(summary.backfill).plan[0]["batched"] is False


@pytest.mark.full
def test_days_before_the_first_data_do_not_vouch_for_a_step(shop):
    shop.land(6)
    shop.lab.spark.sql(f"delete from {shop.raw.name} where d < date'{day(4)}'")
    summary = shop.backfill(1, 7, lying(shop), chunk=3, parallel=1)
    assert (summary.status, len(shop.told("split"))) == ("done", 1)
    assert min(row["n"] for row in shop.lab.rows("facts", f"d = date'{day(6)}'")) == 20 * 7


def test_a_broken_step_is_given_up_after_a_few_partitions(shop):
    shop.land(9)
    summary = shop.backfill(1, 10, shop.build(bad=range(1, 10)), steps=("facts",), chunk=1, parallel=1)
    assert (summary.status, summary.tallies[0].failed) == ("partly", 9)
    # One more may have been taken between the fifth failure and the decision
    assert len(shop.told("chunk started")) in (5, 6)
    assert "not tried: the first 5 partitions all failed" in summary.failures[-1].reason
