"""Which gates a run may let through: those that the user declared, by their names, with a reason."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, Pipeline, Table, gates
from twice.engine.attempt.accepted_gates import accepted_gates
from twice.engine.plan import plan
from twice.errors import UsageError

FEW = gates.row_count(min=5)


def stages(**steps):
    pipeline = Pipeline("shop", grain=Day)
    for name, checks in steps.items():
        table = Table(f"lake.a.{name}", partition=Day("d"), key=["n"], write=Overwrite(), gates=checks)
        pipeline.sql(name, reads={}, writes=table, query="select 1")
    return plan(pipeline, Day.unit("2026-04-25", pipeline.zone))


def refused(planned, names, because="a holiday") -> str:
    with pytest.raises(UsageError) as caught:
        accepted_gates(planned, names, because)
    return str(caught.value)


def test_a_gate_is_found_by_its_name():
    planned = stages(facts=[FEW, gates.not_null("n")], other=[])
    assert accepted_gates(planned, ["row count at least 5"], " a holiday ") == {
        "facts": {"row count at least 5": "a holiday"}
    }
    assert accepted_gates(planned, [], "") == {}


def test_a_name_of_several_steps_needs_the_step():
    planned = stages(facts=[FEW], other=[FEW])
    assert "the steps facts and other have a gate 'row count at least 5'" in refused(planned, [FEW.text])
    assert accepted_gates(planned, ["other: row count at least 5"], "x") == {"other": {FEW.text: "x"}}


def test_two_gates_of_one_name_cannot_be_told_apart():
    planned = stages(facts=[gates.check(lambda _: None), gates.check(lambda _: False)])
    assert "step facts has several gates 'check <lambda>'" in refused(planned, ["check <lambda>"])


def test_an_unknown_gate_is_answered_with_the_nearest():
    said = refused(stages(facts=[FEW], other=[gates.not_null("n")]), ["row count at last 5"])
    assert (
        "no step of this run has a gate 'row count at last 5'; the gates are: row count at least 5, n is not n" in said
    )
    assert "Did you mean row count at least 5?" in said
    assert "the gates are: none" in refused(stages(facts=[]), ["n unique and not null in each partition"])


def test_accept_and_because_belong_together():
    assert "needs a reason" in refused(stages(facts=[FEW]), [FEW.text], " ")
    assert "needs the gate" in refused(stages(facts=[FEW]), [], "a holiday")
