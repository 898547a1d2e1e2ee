"""The folder that runs on Spark's defaults in `make test`, too: digests and keys must not depend on generated code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.project import QUICK

# What decides how a plan is carried out; two hundred tasks for three rows would show nothing more.
CHANGED = [name for name in QUICK if name.startswith(("spark.sql.codegen.", "spark.sql.adaptive."))]


@pytest.fixture(autouse=True)
def _spark_defaults(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test with Spark generate code and adapt its plans, as a user's session does."""
    if not request.node.get_closest_marker("spark"):
        yield
        return
    spark = request.getfixturevalue("spark")
    before = {name: spark.conf.get(name) for name in CHANGED}
    for name in CHANGED:
        spark.conf.unset(name)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
