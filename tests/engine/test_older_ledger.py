"""A ledger that the version before made: it is migrated when it is opened, and what it knows still holds."""

from __future__ import annotations

import pytest

from tests.support.ledgers import put_back
from twice import Day, Overwrite, Pipeline, Table, backfill
from twice.ledger import open_ledger, revision_at
from twice.ledger.db.schema import REVISIONS

pytestmark = pytest.mark.spark
MON, TUE, WED = "2026-04-20", "2026-04-21", "2026-04-22"


def test_a_rerun_of_a_day_that_an_older_ledger_recorded_is_unchanged(lab):
    orders = lab.source("orders", "d date, n int", f"values (date '{MON}', 1), (date '{TUE}', 2)")
    facts = Table(lab.name("facts"), partition=Day("d"), key=["n"], write=Overwrite())
    shop = Pipeline("shop", grain=Day)
    shop.sql("facts", reads={"orders": orders}, writes=facts, query="select d, n from orders")
    lab.run(shop, MON)
    made = backfill(shop, TUE, WED, spark=lab.spark, ledger=lab.ledger, config=lab.config)
    put_back(lab.ledger)
    assert revision_at(lab.config.ledger).found == REVISIONS[-2]
    before = lab.picture("facts")
    lab.ledger = open_ledger(lab.config.ledger)
    assert revision_at(lab.config.ledger).up_to_date
    assert [lab.run(shop, day).steps[0].status for day in (MON, TUE)] == ["unchanged", "unchanged"]
    assert lab.run(shop, MON, skip_fresh=True).steps[0].status == "fresh"
    assert lab.picture("facts") == before
    (chunk,) = lab.ledger.backfills.chunks.list(made.backfill)
    assert (chunk.step, chunk.step_index, chunk.state) == ("facts", 1, "done")
