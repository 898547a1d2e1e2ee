"""S31, S51 and freshness on real tables: what changed is named, accepted, paid for and reshaped."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, Pipeline, Table
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.engine.operations.accepting import accept
from twice.engine.status import status
from twice.engine.status.table_state import TableState
from twice.errors import SchemaRefused
from twice.model.windows import Window

pytestmark = pytest.mark.spark

RAW = "id bigint, d date, n int"
ROWS = "select id, date_add(date'2026-04-01', cast(id % 3 as int)), cast(id as int) from range(9)"


def pipeline_of(lab, raw, query: str) -> Pipeline:
    pipeline = Pipeline("fresh", grain=Day)
    facts = Table(lab.name("facts"), partition=Day("d"), key=["id"], write=Overwrite())
    days = Table(lab.name("days"), partition=Day("d"), key=["d"], write=Overwrite())
    pipeline.sql("facts", reads={"raw": raw}, writes=facts, query=query)
    pipeline.sql("days", reads={"facts": facts}, writes=days, query="select d, count(*) as n from facts group by d")
    return pipeline


def run_days(lab, pipeline, **how) -> list[str]:
    return [step.status for day in (1, 2, 3) for step in lab.run(pipeline, f"2026-04-0{day}", **how).steps]


def states(found, step: str) -> list[str]:
    (mine,) = [each for each in found if each.step == step]
    return [partition.state for partition in mine.partitions]


@pytest.mark.full
def test_sources_that_twice_did_not_make_are_compared_without_a_spark_job(lab):
    raw = lab.source("raw", RAW, ROWS)
    pipeline = pipeline_of(lab, raw, "select id, d, n from raw")
    run_days(lab, pipeline)
    live = TableState(lab.runtime)
    assert states(status(lab.ledger, pipeline, live=live.outputs, sources=live), "facts") == ["done"] * 3

    lab.insert("raw", "values (99, date'2026-04-02', 1)")

    assert states(status(lab.ledger, pipeline), "facts") == ["done"] * 3
    jobs = lab.jobs()
    found = status(lab.ledger, pipeline, live=live.outputs, sources=TableState(lab.runtime))
    assert lab.jobs() == jobs
    assert states(found, "facts") == ["done", "stale", "done"]
    assert states(found, "days") == ["done"] * 3
    (reason,) = found[0].partitions[1].reasons
    assert reason.text == f"{lab.name('raw')} 2026-04-02 changed"
    assert run_days(lab, pipeline, skip_fresh=True) == ["fresh", "fresh", "published", "published", "fresh", "fresh"]
    assert states(status(lab.ledger, pipeline, sources=TableState(lab.runtime)), "facts") == ["done"] * 3


def test_a_harmless_change_of_code_is_named_and_accepted(lab):
    raw = lab.source("raw", RAW, ROWS)
    run_days(lab, pipeline_of(lab, raw, "select id, d, n from raw"))
    tidier = pipeline_of(lab, raw, "SELECT id, d, n FROM raw")
    found = status(lab.ledger, tidier)
    assert states(found, "facts") == ["stale"] * 3
    assert found[0].partitions[0].reasons[0].text == "the code changed: its query"
    versions = lab.versions("facts")

    jobs = lab.jobs()
    accept(lab.ledger, tidier)
    assert lab.jobs() == jobs

    assert states(status(lab.ledger, tidier), "facts") == ["done"] * 3
    assert run_days(lab, tidier, skip_fresh=True) == ["fresh"] * 6
    assert lab.versions("facts") == versions


def test_s31_every_run_is_paid_for_by_its_tags(lab):
    raw = lab.source("raw", RAW, ROWS)
    pipeline = pipeline_of(lab, raw, "select id, d, n from raw")
    lab.run(pipeline, "2026-04-01", tags={"project": "apollo"})
    lab.run(pipeline, "2026-04-02", tags={"project": "apollo"})
    lab.run(pipeline, "2026-04-03")

    apollo, rest = sorted(lab.ledger.runs.costs("project"), key=lambda cost: cost.name, reverse=True)

    assert (apollo.name, apollo.runs, apollo.attempts) == ("apollo", 2, 4)
    assert (rest.name, rest.runs, rest.unmeasured) == ("(no project)", 1, 0)
    assert apollo.total["executor_seconds"] > 0
    assert apollo.total["bytes_written"] > rest.total["bytes_written"] > 0
    (all_of_it,) = lab.ledger.runs.costs("pipeline")
    for measure, value in all_of_it.total.items():
        assert value == pytest.approx(apollo.total[measure] + rest.total[measure])


@pytest.mark.full
def test_s51_a_migration_backfill_reshapes_history(lab):
    raw = lab.source("raw", RAW, ROWS)
    run_days(lab, pipeline_of(lab, raw, "select id, d, n from raw"))
    wider = pipeline_of(lab, raw, "select id, d, cast(n as bigint) as n, n % 2 = 0 as even from raw")
    with pytest.raises(SchemaRefused) as refused:
        lab.run(wider, "2026-04-01", steps=["facts"])
    assert "ALTER TABLE" in refused.value.next_step
    assert {row["n"] for row in lab.rows("facts")} == set(range(9))
    lab.spark.sql(f"alter table {lab.name('facts')} alter column n type bigint")

    first = wider.grain.parse("2026-04-01", wider.zone)
    whole = Window(first, wider.grain.parse("2026-04-04", wider.zone))
    done = Project(lab.runtime, wider).start(Request("fresh", whole))

    assert done.exit_code == 0
    found = status(lab.ledger, wider)
    assert states(found, "facts") == states(found, "days") == ["done"] * 3
    assert dict(lab.read("facts").dtypes) == {"id": "bigint", "d": "date", "n": "bigint", "even": "boolean"}
    assert {row["n"]: row["even"] for row in lab.rows("facts")} == {n: n % 2 == 0 for n in range(9)}
    assert Project(lab.runtime, wider).start(Request("fresh", whole)).status == "nothing to do"
