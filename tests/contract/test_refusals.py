"""What a store cannot do it refuses, names what it can, and changes nothing; a table says which store lacks what."""

from __future__ import annotations

import pytest

from tests.contract.conftest import KINDS, LACKING
from tests.contract.test_shadow import NEW, land, middle, project, shop
from twice import Day, InsertOnly, Merge, Overwrite
from twice.engine.attempt.claiming import claimed
from twice.errors import StoreRefused
from twice.model.scopes import Scope
from twice.store.protocol import Shadowing

pytestmark = [pytest.mark.spark, pytest.mark.every_store]

MON = "2026-04-20"


def test_the_table_of_lacking_abilities_is_what_the_stores_say(tables, kind):
    abilities, store = tables.abilities, tables.store(tables.table())
    assert (Merge not in abilities.writes) == (InsertOnly not in abilities.writes) == (kind in LACKING["merge"])
    assert (not isinstance(store, Shadowing)) == (kind in LACKING["shadow"])
    assert (not abilities.side_by_side) == (kind in LACKING["side_by_side"])
    assert (abilities.kind != "sql") == (kind in LACKING["outside_readers"])
    assert kind in KINDS or kind == "own"


@pytest.mark.lacks("merge")
@pytest.mark.parametrize("pattern", [Merge(version="n"), InsertOnly()], ids=["merge", "insert"])
def test_a_store_that_cannot_merge_says_what_it_can_do(tables, pattern):
    feed = tables.feed(tables.table(partition=Day("d"), key=["id"], write=pattern), "id bigint, n int, d date")
    with pytest.raises(StoreRefused) as refused:
        tables.run(feed, MON)
    said = str(refused.value)
    assert f"a {tables.abilities.kind} store cannot {feed.table.write.text}: it can do Overwrite()" in said
    assert tables.abilities.instead in said
    assert "nothing was changed" in said
    assert not tables.store(feed.table).exists(tables.lab.spark, feed.table)
    assert tables.lab.ledger.leases.list() == []


@pytest.mark.lacks("shadow")
def test_a_store_that_cannot_build_unseen_refuses_a_shadow(tables):
    land(tables)
    new = shop(tables, NEW)
    with pytest.raises(StoreRefused, match="cannot build a table out of sight"):
        project(tables, new).start(middle(new))


@pytest.mark.lacks("side_by_side")
def test_a_store_for_one_writer_is_claimed_as_a_whole(tables):
    table = tables.table(partition=Day("d"), key=["id"], write=Overwrite())

    class Task:
        store, target = tables.store(table), None

    assert claimed(Task) == Scope(None)
