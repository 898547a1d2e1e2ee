"""Undo of some tables of a run: what a store without history keeps does not stand in the way of the others."""

from __future__ import annotations

import pytest

from twice import Day, Overwrite, Pipeline, Table
from twice.engine.operations.undo import undo
from twice.errors import StoreRefused, UsageError

pytestmark = pytest.mark.spark
DAY = "2026-04-25"


def test_what_has_history_is_undone_when_asked_for_and_the_rest_is_named(lab):
    lab.declare(f'[stores.plain]\ntype = "parquet"\npath = "{lab.folder}/plain"')
    pipeline = Pipeline("two", grain=Day)
    kept = Table(lab.name("kept"), partition=Day("d"), key=["n"], write=Overwrite())
    served = Table("plain.mart.served", partition=Day("d"), key=["n"], write=Overwrite())
    pipeline.sql("kept", reads={}, writes=kept, query="select cast(:window_start as date) d, 1 n")
    pipeline.sql("served", reads={"kept": kept}, writes=served, query="select * from kept")
    run = lab.run(pipeline, DAY).run
    pipelines = {"two": pipeline}
    shop = lab.runtime
    with pytest.raises(StoreRefused, match=r"plain.mart.served: a parquet store keeps no earlier") as refused:
        undo(shop, pipelines, run)
    assert f"twice undo {run} --table {kept.name}" in refused.value.next_step
    with pytest.raises(StoreRefused, match=r"plain.mart.served: a parquet store keeps no earlier"):
        undo(shop, pipelines, run, steps=["served"])
    with pytest.raises(UsageError, match=r"published no table 'plain.mart.servd'.* Did you mean plain.mart.served"):
        undo(shop, pipelines, run, tables=["plain.mart.servd"])
    assert len(lab.rows("kept")) == 1
    (done, left) = undo(shop, pipelines, run, tables=[kept.name])
    assert done.text == f"{kept.name}, 2026-04-25/2026-04-26: restored to nothing (0 rows)"
    assert left.text == (
        "plain.mart.served, 2026-04-25/2026-04-26: stays as the run published it: "
        "a parquet store keeps no earlier versions"
    )
    assert (left.to_json()["status"], left.to_json()["step"]) == ("stays", "served")
    assert lab.rows("kept") == []
