"""Checks of the loader, run by pytest against a scratch database."""
import datetime
import random
import uuid

import pytest
import sqlalchemy as sa

engine = sa.create_engine("sqlite://")


@pytest.fixture
def table():
    name = f"t_{uuid.uuid4().hex}"
    with engine.begin() as conn:
        conn.execute(sa.text(f"create table {name} (id integer, amount real, at text)"))
    yield name
    with engine.begin() as conn:
        conn.execute(sa.text(f"drop table {name}"))


def test_sum_of_inserted_rows(table):
    amounts = [random.random() for _ in range(5)]
    with engine.begin() as conn:
        for i, a in enumerate(amounts):
            conn.execute(
                sa.text(f"insert into {table} values (:i, :a, :t)"),
                {"i": i, "a": a, "t": datetime.datetime.now().isoformat()},
            )
        total = conn.execute(sa.text(f"select sum(amount) from {table}")).scalar_one()
    assert total == pytest.approx(sum(amounts))


def test_empty(table):
    with engine.connect() as conn:
        assert conn.execute(sa.text(f"select count(*) from {table}")).scalar_one() == 0
