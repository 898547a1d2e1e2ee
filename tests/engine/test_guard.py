"""A step whose code asks the clock is refused before Spark is started."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from twice import Day, Overwrite, Pipeline, Table
from twice.backfills.request import Request, chosen
from twice.engine.attempt.determinism import code_facts
from twice.engine.plan import plan
from twice.errors import NotDeterministic
from twice.model.contracts import contracts

RAW = Table("lake.raw.o", partition=Day("d"))


def stamped(rows: Any) -> Any:
    return rows.withColumn("at", datetime.now(timezone.utc))


def pipeline_of(function: Any, **how: Any) -> Pipeline:
    pipeline = Pipeline("p", grain=Day)
    out = Table("lake.core.o", partition=Day("d"), write=Overwrite())
    pipeline.step(reads={"rows": RAW}, writes=out, name="s", **how)(function)
    return pipeline


def test_a_clock_in_the_code_stops_a_run_and_a_backfill_before_they_start():
    pipeline = pipeline_of(stamped)
    window = pipeline.grain.unit("2026-04-25", pipeline.zone)
    line = stamped.__code__.co_firstlineno + 1
    said = rf"step s: tests/engine/test_guard.py:{line}: datetime\.now\(timezone\.utc\) reads the clock\. A rerun would"

    with pytest.raises(NotDeterministic, match=said) as refused:
        plan(pipeline, window)
    assert refused.value.exit_code == 3
    assert 'nondeterministic="…"' in refused.value.next_step
    with pytest.raises(NotDeterministic, match=said):
        chosen(pipeline, Request("p", window))


def test_a_written_reason_lets_it_pass():
    pipeline = pipeline_of(stamped, nondeterministic="the auditors want the hour of the load")
    window = pipeline.grain.unit("2026-04-25", pipeline.zone)
    assert [stage.step.name for stage in plan(pipeline, window)] == ["s"]


def test_the_contract_says_which_code_cannot_be_read():
    made: dict[str, Any] = {"__name__": "typed.at.a.prompt"}
    exec("def s(rows):\n    return rows", made)  # noqa: S102 - as a prompt does it
    row = "| Code that is not read for clocks | no source for typed.at.a.prompt.s |"

    assert row in contracts([pipeline_of(made["s"])], code_facts)
    assert "not read" not in contracts([pipeline_of(lambda rows: rows)], code_facts)
