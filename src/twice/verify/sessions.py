"""Sessions with the settings of the sandbox, also where Spark was started with others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from twice.engine.spark import jvm

_KEPT = "spark.twice.verify.settings"


class SandboxSession(SparkSession):
    """A session whose new sessions have the settings of the sandbox: Spark gives them those that it was started with.

    They are in the settings of the application, where a child process finds them, too.
    """

    def newSession(self) -> SparkSession:  # noqa: N802 - the name is Spark's
        """Open a session."""
        found = super().newSession()
        for name, value in json.loads(jvm.context(self).conf().get(_KEPT, "{}")).items():
            found.conf.set(name, value)
        return found


def sandboxed(spark: SparkSession) -> SandboxSession:
    """Open a session of the sandbox."""
    return SandboxSession(spark.sparkContext, jvm.java_session(spark.newSession()))


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let sessions that are opened from now on have these settings, until the end of the block."""
    conf = jvm.context(spark).conf()
    # Spark loads catalogs on first use: a new session reads their settings from the application's.
    own = {name: value for name, value in wanted.items() if spark.conf.isModifiable(name)}
    asked = {**wanted, _KEPT: json.dumps({**json.loads(conf.get(_KEPT, "{}")), **own})}
    before = {name: conf.get(name) if conf.contains(name) else None for name in asked}
    for name, value in asked.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                conf.remove(name)
            else:
                conf.set(name, old)
