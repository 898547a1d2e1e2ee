"""A COMMIT whose answer is lost: the claim's row is asked on a new connection before anything else."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from sqlalchemy.engine.default import DefaultDialect

from twice.store.sql.write import publishing

pytestmark = [pytest.mark.spark, pytest.mark.crash]

ERRORS = {
    "sqlite": sqlite3.OperationalError("disk I/O error"),
    "postgres": psycopg.OperationalError("server closed the connection unexpectedly"),
}


@pytest.fixture(params=list(ERRORS))
def store(request):
    return request.param


@pytest.mark.parametrize("applied", [False, True], ids=["not-applied", "applied"])
def test_s07_a_commit_without_an_answer_is_looked_up_by_its_token(lasting, monkeypatch, store, applied):
    # Given a connection that breaks when the publish commits: before the commit is made, or after it,
    world = lasting("overwrite", store=store)
    world.land_next()
    before, old = world.commits(), world.look()
    commit, armed, cut = DefaultDialect.do_commit, [], []

    def lossy(dialect, connection):
        if not armed or cut:
            return commit(dialect, connection)
        cut.append(world.look())
        if applied:
            commit(dialect, connection)
        else:
            connection.rollback()
        raise ERRORS[store]

    monkeypatch.setattr(publishing, "fail_point", lambda name: armed.append(name) if name == "publish.ready" else None)
    monkeypatch.setattr(DefaultDialect, "do_commit", lossy)
    (step,) = world.run().steps

    # then a commit that landed is found, one that did not is made again, and nobody saw anything in between.
    assert cut == [old]
    assert (step.status, step.attempts) == ("published", 1 if applied else 2)
    assert world.commits() == before + 1
    assert world.look() == world.delivered()
    assert world.recorded() == world.clean(world.number)[1]
    assert world.tidy()
