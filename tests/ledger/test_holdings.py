"""Partitions read lean: the same as the outputs themselves, on every database."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

from tests.support.counting import fetched
from twice.ledger import InputRecord, Output, second
from twice.model.scopes import Scope
from twice.model.windows import Window

ONE = datetime(2026, 4, 1, tzinfo=timezone.utc)
TTL = timedelta(minutes=1)


def scope(day: int, count: int = 1, **dimensions: str) -> Scope:
    return Scope.of(Window(ONE + timedelta(days=day - 1), ONE + timedelta(days=day - 1 + count)), dimensions)


def record(ledger, *scopes: Scope, status: str = "published", code: str = "c") -> str:
    run = ledger.runs.start("shop", scopes[0])
    row = ledger.attempts.start(run, "facts", "t", 1, scopes[0], code=code)
    claim = ledger.leases.claim("t", scopes, ttl=TTL, run=run)
    inputs = (InputRecord("a", "u", "window", "1", {}),)
    made = [
        Output("t", each, 3, f"3-{number}", "f", "1", "shop", "facts", code, inputs)
        for number, each in enumerate(scopes)
    ]
    ledger.outputs.record(claim, row, made, status=status)
    return run


def test_holdings_are_the_outputs(ledger):
    record(ledger, scope(2), scope(1), scope(3, tenant="o'hara"), Scope(None))
    held, outputs = ledger.outputs.holdings("t"), ledger.outputs.list("t")
    assert [(each.rows, each.digest, each.files, each.code, each.run) for each in held] == [
        (each.rows, each.digest, each.files, each.code, each.run) for each in outputs
    ]
    assert [each.start for each in held] == [None, "2026-04-01T00:00:00", "2026-04-02T00:00:00", "2026-04-03T00:00:00"]
    assert held[1].end == second(ONE + timedelta(days=1)) == "2026-04-02T00:00:00"
    assert held[3].dimensions == json.dumps({"tenant": "o'hara"}, separators=(",", ":"))
    texts = ledger.outputs.input_texts("t")
    assert set(texts) == {each.inputs for each in held}
    assert '"name":"a"' in texts[held[0].inputs]


def test_a_window_limits_them(ledger):
    record(ledger, *[scope(day) for day in range(1, 6)])
    found = ledger.outputs.holdings("t", scope(2, 2).window)
    assert [each.start for each in found] == ["2026-04-02T00:00:00", "2026-04-03T00:00:00"]
    assert ledger.outputs.holdings("other") == []
    assert ledger.outputs.input_texts("other") == {}


def test_the_newest_attempt_of_each_scope_is_told_and_acceptances_are_not(ledger):
    record(ledger, scope(1))
    run = ledger.runs.start("shop", scope(1))
    row = ledger.attempts.start(run, "facts", "t", 1, scope(1), code="c")
    ledger.attempts.finish(row, "failed", error="boom")
    record(ledger, scope(2))
    record(ledger, scope(1), status="accepted")
    found = ledger.attempts.newest("shop", "facts", scope(1, 5).window)
    assert [(each.start, each.status, each.error) for each in found] == [
        ("2026-04-01T00:00:00", "failed", "boom"),
        ("2026-04-02T00:00:00", "published", ""),
    ]
    assert ledger.attempts.newest("shop", "facts", scope(4).window) == []
    assert ledger.attempts.states([row]) == {row: "failed"}


def test_parts_of_a_code_are_kept_once(ledger):
    assert ledger.codes.parts("abc") is None
    ledger.codes.keep("abc", {"sql": "1"})
    ledger.codes.keep("abc", {"sql": "2"})
    assert ledger.codes.parts("abc") == {"sql": "1"}


def test_costs_are_added_up_by_tag(ledger):
    run = ledger.runs.start("shop", scope(1), tags={"project": "apollo"})
    row = ledger.attempts.start(run, "facts", "t", 1, scope(1), code="c")
    ledger.attempts.finish(row, "failed", details={"cost": {"executor_seconds": 2.5}})
    ledger.attempts.start(run, "facts", "t", 2, scope(1), code="c")
    (line,) = ledger.runs.costs("project", since=timedelta(days=1))
    assert (line.name, line.runs, line.attempts, line.unmeasured) == ("apollo", 1, 2, 1)
    assert line.total["executor_seconds"] == 2.5
    assert [each.name for each in ledger.runs.costs('od"d')] == ['(no od"d)']
    assert ledger.runs.costs("project", since=timedelta(0), pipeline="other") == []
    # What was refused inside an attempt was no work of its own
    ledger.attempts.add_failures(run, "facts", "t", 2, {scope(2): "row count at least 1"}, code="c")
    assert [each.attempts for each in ledger.runs.costs("step")] == [2]


def test_the_bill_of_many_attempts_reads_one_row_for_each_line(ledger):
    for day in range(1, 9):
        run = ledger.runs.start("shop@06a2wk" if day % 2 else "shop", scope(day), tags={"day": str(day)})
        row = ledger.attempts.start(run, "facts", "t", 1, scope(day), code="c")
        # A remark may look like a cost, and hold what Postgres does not decode
        remarks = ['{"cost":{"executor_seconds":100}}', "half \ud800 or none \0", '"inside":']
        ledger.attempts.finish(row, "published", details={"cost": {"cpu_seconds": 1.5}, "remarks": remarks})
    with fetched(ledger.database.engine) as counted:
        (line,) = ledger.runs.costs("step", pipeline="shop")
    assert (line.name, line.runs, line.unmeasured, line.total["cpu_seconds"]) == ("shop.facts", 8, 0, 12.0)
    assert line.total["executor_seconds"] == 0
    assert counted.of("attempts") == 1
    assert len(ledger.runs.costs("day")) == 8
