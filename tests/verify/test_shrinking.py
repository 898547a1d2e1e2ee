"""A failing check is shrunk to a few input rows, and the size that was reached is told as it is."""

from __future__ import annotations

import pytest

from tests.verify.modules import FAULTY, Modules
from twice.verify.checks import chosen
from twice.verify.sandbox import Sandbox
from twice.verify.shrinking import shrink

pytestmark = pytest.mark.spark

# One row of all orders decides, and no column of the result says which.
HIDDEN = """
totals = Table("{totals}", partition=Day("d"), key=["d"], write=Overwrite())

@sales.step(reads={{"orders": orders}}, writes=totals)
def total(orders):
    run = F.when(F.max(F.col("order_id") == 17), F.lit(next(calls))).otherwise(0)
    return orders.groupBy(F.col("d")).agg(F.count("*").alias("orders"), run.alias("run"))
"""
# All orders together decide.
WHOLE = HIDDEN.replace('F.max(F.col("order_id") == 17)', 'F.count("*") >= 38')


@pytest.fixture
def modules(lab, monkeypatch):
    return Modules(lab, monkeypatch)


def shrunk(modules, body, **bounds):
    with Sandbox.open(modules.lab.config, modules.lab.spark) as sandbox:
        trial = modules.trial(sandbox, modules.write(body))
        (finding,) = modules.made(trial).findings
        found = shrink(trial, chosen(["run-twice"], quick=False)[0], finding, **bounds)
        places = found.trial.inputs.folders
        (rows,) = (
            [row.asDict() for row in modules.lab.spark.read.parquet(place).collect()] for place in places.values()
        )
        return found, rows


@pytest.mark.full
def test_rows_that_the_differing_rows_come_from_are_tried_first(modules):
    found, rows = shrunk(modules, FAULTY, goal=5)
    assert {row["customer"] for row in rows} == {"c7"}
    assert (found.rows, found.of, found.tries) == (4, 40, 1)
    assert found.text.startswith("4 of 40 input rows (1 smaller one tried in ")
    assert found.finding.evidence.matches == {"run": 0.0}


@pytest.mark.full
def test_without_such_rows_the_inputs_are_halved(modules):
    found, rows = shrunk(modules, HIDDEN)
    assert found.rows == len(rows) <= 20
    assert 17 in {row["order_id"] for row in rows}
    assert found.of == 40


@pytest.mark.full
def test_a_case_that_cannot_be_shrunk_is_told_as_large_as_it_is(modules):
    found, rows = shrunk(modules, WHOLE, tries=3)
    # Two rows of the day before do not matter.
    assert (found.rows, len(rows), found.of, found.tries) == (38, 38, 40, 3)
    assert "none with fewer rows was found to fail" in found.text


@pytest.mark.full
def test_no_time_no_try(modules):
    found, _ = shrunk(modules, HIDDEN, seconds=0)
    assert (found.rows, found.tries) == (40, 0)
