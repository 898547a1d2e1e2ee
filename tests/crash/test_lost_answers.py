"""A commit whose answer is lost is unknown, not failed: the table is asked before anything else.

The commits go to the real catalog. What is played is the network: the answer of one call from
Python to Iceberg is replaced by an error, after the call was made (or instead of it).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.java_gateway import JavaMember
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from tests.crash.world import AFTER, DAY
from twice.errors import Conflict, TransientError

pytestmark = [pytest.mark.spark, pytest.mark.crash]

CALL = JavaMember.__call__
TRANSACTION, BRANCHES = "org.apache.iceberg.BaseTransaction", "org.apache.iceberg.SnapshotManager"


class Wire:
    """Loses the answer of the n-th call of a Java method, once."""

    def __init__(self, monkeypatch, spark):
        self._spark, self.cut = spark, 0
        self._patch = monkeypatch

    def lose(self, owner: str, method: str, error: str, *, applied: bool, at: int = 1, first: Callable | None = None):
        calls = 0

        def call(member, *arguments):
            nonlocal calls
            if member.name != method or self.cut or self._owner(member) != owner:
                return CALL(member, *arguments)
            calls += 1
            if calls != at:
                return CALL(member, *arguments)
            self.cut += 1
            if first is not None:
                first()
            if applied:
                CALL(member, *arguments)
            raise self._error(error)

        self._patch.setattr(JavaMember, "__call__", call)

    def _owner(self, member) -> str:
        kind = CALL(JavaMember("getClass", member.container, member.target_id, member.gateway_client))
        return CALL(JavaMember("getName", kind, kind._target_id, kind._gateway_client))

    def _error(self, name: str) -> Exception:
        if name == "network":
            return Py4JNetworkError("Answer from Java side is empty")
        exceptions = self._spark._jvm.org.apache.iceberg.exceptions
        cause = self._spark._jvm.java.lang.RuntimeException("Connection reset")
        made = {
            "unknown": lambda: exceptions.CommitStateUnknownException(cause),
            "failed": lambda: exceptions.CommitFailedException(cause, "Connection reset", None),
        }[name]()
        return Py4JJavaError("the answer was lost", made)


# What a lost connection does to a commit shows in one of the two kinds of a lost answer; the full lane takes both.
ANSWERS = [("failed", 1), ("unknown", 2), pytest.param("network", 2, marks=pytest.mark.full)]
ERRORS = ["failed", "unknown", pytest.param("network", marks=pytest.mark.full)]
# A branch that got no answer is found by its name, whatever the error was.
BRANCH_ANSWERS = [pytest.param("failed", 1, marks=pytest.mark.full), *ANSWERS[1:]]
BRANCH_ERRORS = [pytest.param("failed", marks=pytest.mark.full), *ERRORS[1:]]


@pytest.fixture
def wire(monkeypatch, spark):
    return Wire(monkeypatch, spark)


@pytest.fixture
def ready(lasting):
    """A table with an older version of the day, and a new delivery."""
    made = lasting("overwrite")
    made.land_next()
    return made


def once_published(world, versions, result, attempts):
    assert [(step.status, step.attempts) for step in result.steps] == [("published", attempts)]
    assert len(world.versions()) == len(versions) + 1
    assert result.steps[0].version == str(world.versions()[-1])
    assert world.look() == world.delivered()
    assert world.recorded() == world.clean(world.number)[1]
    assert world.tidy()


@pytest.mark.parametrize(("error", "attempts"), ANSWERS)
def test_publish_that_fails_before_it_is_applied_is_done_again(ready, wire, error, attempts):
    versions = ready.versions()
    wire.lose(TRANSACTION, "commitTransaction", error, applied=False)
    result = ready.run()
    assert wire.cut == 1
    once_published(ready, versions, result, attempts)


@pytest.mark.parametrize("error", ERRORS)
def test_publish_that_landed_without_an_answer_is_recognised_by_its_token(ready, wire, error):
    versions = ready.versions()
    wire.lose(TRANSACTION, "commitTransaction", error, applied=True)
    result = ready.run()
    assert wire.cut == 1
    once_published(ready, versions, result, attempts=1)


def foreign(world, day):
    """Make somebody who does not use twice add a row to the table."""
    world.spark.sql(f"insert into {world.name()} values (7, date'{day}', 1000000, timestamp'2020-01-01 00:00:00')")


@pytest.mark.parametrize("error", ERRORS[1:])
def test_publish_without_an_answer_is_not_mistaken_for_somebody_elses_commit(ready, wire, error):
    # Given somebody else's commit in the scope in the very moment of ours, which is not applied,
    count, _ = ready.look()
    wire.lose(TRANSACTION, "commitTransaction", error, applied=False, first=lambda: foreign(ready, DAY))
    # when the answer is lost, and the step is tried once only,
    with pytest.raises(TransientError) as caught:
        ready.run(kind="once")
    # then nothing was written over it, it is a transient error, and the next run starts from what is there.
    assert caught.value.exit_code == 75
    assert ready.look()[0] == count + 1
    assert ready.tidy()
    assert [step.status for step in ready.run().steps] == ["published"]
    assert ready.look() == ready.delivered()


def test_a_commit_of_somebody_else_in_the_last_moment_is_a_conflict(ready, wire, monkeypatch):
    # Given a foreign writer in the scope after every check of ours and before our commit,
    count, _ = ready.look()
    done = []

    def call(member, *arguments):
        if member.name == "commitTransaction" and not done:
            done.append(True)
            foreign(ready, DAY)
        return CALL(member, *arguments)

    monkeypatch.setattr(JavaMember, "__call__", call)
    # then Iceberg refuses our commit, and we say so.
    with pytest.raises(Conflict) as caught:
        ready.run(kind="once")
    assert done
    assert "nothing was overwritten" in str(caught.value)
    assert ready.look()[0] == count + 1
    assert ready.tidy()


@pytest.mark.parametrize(("day", "attempts"), [(DAY, 2), (AFTER, 1)], ids=["same-day", "other-day"])
def test_a_foreign_writer_between_claim_and_publish(ready, monkeypatch, day, attempts):
    # Given somebody who writes past twice while a run is between its gates and its publish,
    done = []

    def act(name):
        if name == "gate.passed" and not done:
            done.append(name)
            foreign(ready, day)

    monkeypatch.setattr("twice.engine.attempt.verbs.fail_point", act)
    told = []
    result = ready.run(listener=told.append)

    # then a change of the same day is a conflict that is tried again, one of another day is none.
    assert [(step.status, step.attempts) for step in result.steps] == [("published", attempts)]
    retries = [event.detail for event in told if event.state == "retrying"]
    assert len(retries) == attempts - 1
    assert all("another writer" in detail for detail in retries)
    assert ready.look() == ready.delivered()
    after, delivered = ready.look(AFTER), ready.delivered(AFTER)
    assert after[0] == delivered[0] + (1 if day == AFTER else 0)
    assert ready.tidy()


@pytest.mark.parametrize(("error", "attempts"), BRANCH_ANSWERS)
def test_a_branch_whose_creation_got_no_answer(ready, wire, error, attempts):
    versions = ready.versions()
    wire.lose(BRANCHES, "commit", error, applied=True)
    result = ready.run()
    assert wire.cut == 1
    once_published(ready, versions, result, attempts)


@pytest.mark.parametrize("error", BRANCH_ERRORS)
def test_a_branch_whose_removal_got_no_answer(lasting, wire, error):
    # Given a run that has nothing to change: it drops its branch, and the answer is lost.
    world = lasting("overwrite")
    world.run()
    versions = world.versions()
    wire.lose(BRANCHES, "commit", error, applied=True, at=2)
    result = world.run()
    # Then the run is a run without changes all the same.
    assert wire.cut == 1
    assert [step.status for step in result.steps] == ["unchanged"]
    assert world.versions() == versions
    assert world.tidy()
