"""Runs of pytest with the plugin, in this process and on its Spark, or in one of their own."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

# Where `twice` is installed from an older state, its entry point is not known yet.
PLUGIN = [] if "twice" in entry_points(group="pytest11").names else ["-p", "twice.testing.plugin"]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest with the plugin in this process, on a folder of its own."""
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")
    monkeypatch.delenv("TWICE_PROFILE", raising=False)

    def run(*arguments: str) -> pytest.RunResult:
        # Hypothesis is imported anew by each run, which takes longer than most of them.
        without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        return pytester.runpytest_inprocess(*PLUGIN, *without, "-rs", *arguments)

    return run
