"""A publish without an answer, on every store: it failed before, it landed, or another writer was there first.

The publish is made on the real store. What is played is its answer: an error comes back instead, after the call
was made or in its place. What lies below (a catalog's commit, a COMMIT) is in `test_lost_answers` and
`test_lost_commits`.
"""

from __future__ import annotations

import pytest

from tests.crash.test_kill import STORES
from tests.crash.world import AFTER, DAY, DAYS
from twice import Table
from twice.engine.stores import Stores
from twice.errors import TransientError

# `make test` loses the answer of the commit itself: Iceberg's in `test_lost_answers`, a database's in
# `test_lost_commits`, Delta's in `tests/store/test_delta_protocol.py`.
pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.full]


class Answers:
    """Loses the answer of the first publish."""

    def __init__(self, monkeypatch, world):
        self._patch, self._kind, self.lost = monkeypatch, type(Stores(world.config).of(Table(world.name()))), 0

    def lose(self, *, applied, first=None):
        publish = self._kind.publish

        def lossy(store, *arguments):
            if self.lost:
                return publish(store, *arguments)
            self.lost += 1
            if first is not None:
                first()
            if applied:
                publish(store, *arguments)
            raise TransientError("the answer was lost")

        self._patch.setattr(self._kind, "publish", lossy)


@pytest.fixture(params=STORES)
def ready(request, lasting):
    """A table with an older version of the day, and a new delivery."""
    made = lasting("overwrite", store=request.param)
    made.land_next()
    return made


@pytest.mark.parametrize("applied", [False, True], ids=["failed-before", "landed"])
def test_a_publish_without_an_answer_ends_as_one_version(ready, monkeypatch, applied):
    answers, before = Answers(monkeypatch, ready), ready.commits()
    answers.lose(applied=applied)
    (step,) = ready.run().steps
    assert answers.lost == 1
    assert (step.status, step.attempts) == ("unchanged" if applied else "published", 2)
    assert ready.commits() == before + 1
    assert ready.look() == ready.delivered()
    assert ready.recorded() == ready.clean(ready.number)[1]
    assert ready.tidy()


def test_a_publish_without_an_answer_is_not_mistaken_for_somebody_elses(ready, monkeypatch):
    # Given somebody who does not use twice, and changes a row of the day in the very moment of our publish,
    number = 1_000_000 * (1 + DAYS.index(DAY))
    _, old = ready.look()
    answers = Answers(monkeypatch, ready)
    answers.lose(applied=False, first=lambda: ready.place.edit("t", number, v=5000))
    # when the answer is lost, and the step is tried once only,
    with pytest.raises(TransientError) as caught:
        ready.run(kind="once")
    # then nothing was written over it, it is a transient error, and the next run starts from what is there.
    assert caught.value.exit_code == 75
    assert ready.look()[1] > old + 4000
    assert ready.tidy()
    assert [step.status for step in ready.run().steps] == ["published"]
    assert ready.look() == ready.delivered()
    assert ready.look(AFTER) == ready.delivered(AFTER)
