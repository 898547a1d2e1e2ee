"""Gates on staged rows: all that fail are reported, and a run may let one of them through on the record."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, Pipeline, Table, gates
from twice.content.observing import Observed
from twice.content.profile import profile
from twice.engine.attempt import gating
from twice.errors import GateFailed, KeyViolation, UsageError

pytestmark = pytest.mark.spark

DAY = "2026-04-25"
FEW, LOW, LAW = "row count at least 5", "amount at least 0", "check looks_right"


def looks_right(rows):
    return "the till was closed" if rows.count() < 3 else None


def shop(lab, key: str = "n") -> Pipeline:
    pipeline = Pipeline("shop", grain=Day)
    checks = [gates.row_count(min=5), gates.range("amount", min=0), gates.check(looks_right), gates.not_null("n")]
    facts = Table(lab.name("facts"), partition=Day("d"), key=[key], write=Overwrite(), gates=checks)
    query = "select cast(:window_start as date) d, n, k, n * -1.0 amount from values (1, 7), (2, 7) as t(n, k)"
    pipeline.sql("facts", reads={}, writes=facts, query=query)
    return pipeline


def test_every_gate_that_fails_is_reported_at_once(lab):
    with pytest.raises(GateFailed) as stopped:
        lab.run(shop(lab), DAY)
    said = stopped.value.message
    assert f"{DAY}: the gate “{FEW}” stopped step facts: it has 2" in said
    assert f"{DAY}: the gate “{LOW}” stopped step facts: 2 of 2 rows fail" in said
    assert f"{DAY}: the gate “{LAW}” stopped step facts: the till was closed" in said
    assert "n is not null" not in said
    assert f"--accept '{FEW}' --accept '{LOW}' --accept '{LAW}' --because" in stopped.value.next_step
    assert lab.ledger.runs.get(lab.ledger.runs.list()[0].id).error.startswith(said)


def test_an_accepted_gate_lets_one_run_through_and_stays_on_the_record(lab):
    with pytest.raises(GateFailed) as stopped:
        lab.run(shop(lab), DAY, accept=[FEW, LOW], because="the shop was closed")
    assert FEW not in stopped.value.message
    assert LAW in stopped.value.message
    done = lab.run(shop(lab), DAY, accept=[FEW, LOW, LAW], because="the shop was closed")
    assert len(lab.rows("facts")) == 2
    (info,) = lab.ledger.runs.get(done.run).attempts
    assert info.details["accepted_gates"] == [
        {"gate": FEW, "partition": DAY, "found": "it has 2", "because": "the shop was closed"},
        {"gate": LOW, "partition": DAY, "found": "2 of 2 rows fail", "because": "the shop was closed"},
        {"gate": LAW, "partition": DAY, "found": "the till was closed", "because": "the shop was closed"},
    ]
    with pytest.raises(GateFailed, match=FEW):  # the next run is judged again
        lab.run(shop(lab), DAY)


def test_keys_are_reported_with_the_gates_and_never_accepted(lab):
    with pytest.raises(KeyViolation) as stopped:
        lab.run(shop(lab, key="k"), DAY, accept=[LOW, LAW], because="the shop was closed")
    assert "1 business key (k) occur more than once" in stopped.value.message
    assert f"the gate “{FEW}” stopped step facts" in stopped.value.message
    assert LAW not in stopped.value.message
    with pytest.raises(UsageError, match="no step of this run has a gate 'k unique'"):
        lab.run(shop(lab, key="k"), DAY, accept=["k unique"], because="the shop was closed")


def observed_shop(lab, values: str = "(1, 'a'), (2, 'b')") -> Pipeline:
    pipeline = Pipeline("shop", grain=Day)
    facts = Table(lab.name("facts"), partition=Day("d"), key="n", write=Overwrite(), gates=[gates.not_null("name")])
    query = f"select cast(:window_start as date) d, n, name from values {values} as t(n, name)"
    pipeline.sql("facts", reads={}, writes=facts, query=query)
    return pipeline


def read_again(monkeypatch) -> list[str]:
    """Note which tables' staged rows are read once more to be profiled."""
    again = []
    usual = gating.profiled
    monkeypatch.setattr(
        gating, "profiled", lambda task, *args, **how: again.append(task.step.name) or usual(task, *args, **how)
    )
    return again


def test_rows_of_one_partition_are_judged_while_they_are_written(lab, monkeypatch):
    again = read_again(monkeypatch)
    done = lab.run(observed_shop(lab), DAY)
    assert again == []
    (output,) = lab.ledger.outputs.list(lab.name("facts"))
    # The table, read by the pass that later runs compare with, holds what was recorded.
    found = profile(lab.read("facts"), partition=["d"], key=["n"])
    assert [each.digest.text for each in found.values()] == [output.digest]
    assert lab.run(observed_shop(lab), DAY).steps[0].status == "unchanged"
    assert done.steps[0].rows == 2
    assert again == []
    with pytest.raises(GateFailed, match="1 of 2 rows fail"):
        lab.run(observed_shop(lab, "(1, 'a'), (2, null)"), DAY)
    assert again == []
    with pytest.raises(KeyViolation, match="1 business key \\(n\\) occur more than once"):
        lab.run(observed_shop(lab, "(1, 'a'), (1, 'b')"), DAY)
    assert again == ["facts"]
    assert lab.run(observed_shop(lab, "(3, 'c')"), DAY).steps[0].status == "published"


def test_staged_rows_are_read_if_spark_did_not_count_each_of_them_once(lab, monkeypatch):
    again = read_again(monkeypatch)
    usual = Observed.profile
    monkeypatch.setattr(Observed, "profile", lambda self, written: usual(self, written + 1))
    assert lab.run(observed_shop(lab), DAY).steps[0].rows == 2
    assert again == ["facts"]
