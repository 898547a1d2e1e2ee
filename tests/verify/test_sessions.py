"""Sessions of the sandbox have its settings, whatever Spark was started with."""

from __future__ import annotations

import pytest

from twice.engine.spark.session import fresh
from twice.verify.sessions import sandboxed

pytestmark = pytest.mark.spark

GIVEN, NOT_GIVEN = "spark.sql.shuffle.partitions", "spark.sql.autoBroadcastJoinThreshold"


def test_a_setting_that_spark_was_started_with_is_another_one_in_the_sandbox(world):
    # Given a number of partitions that Spark was started with
    def seen():
        session = fresh(world.sandbox.spark, "UTC")
        return session.conf.get(GIVEN), session.conf.get(NOT_GIVEN)

    before = seen()
    # When blocks inside one another change it, and something else
    with world.sandbox.settings({GIVEN: "5", NOT_GIVEN: "-1"}):
        assert seen() == ("5", "-1")
        with world.sandbox.settings({GIVEN: "7", "spark.default.parallelism": "3"}):
            assert seen() == ("7", "-1")
            # Then a session of another process, which begins with an ordinary one, has it, too
            assert sandboxed(world.lab.spark).newSession().conf.get(GIVEN) == "7"
        assert seen() == ("5", "-1")
    # and afterwards all is as it was
    assert seen() == before
