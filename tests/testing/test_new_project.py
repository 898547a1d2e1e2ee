"""What `twice init` writes is tested, and its tests pass."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.testing.conftest import PLUGIN
from twice.testing import asserts, marks  # noqa: F401 - imported by this process, before a run inside it forgets them

pytestmark = pytest.mark.spark


def new_project(folder):
    done = subprocess.run([sys.executable, "-m", "twice", "init"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "python -m pytest" in done.stdout


@pytest.mark.full
@pytest.mark.slow(reason="makes the checks that a new project has")
def test_the_tests_of_a_new_project_pass(pytester, inner, spark):
    new_project(pytester.path)
    pytester.syspathinsert()
    done = inner("-v")
    done.assert_outcomes(passed=3)
    assert "test_a_day_can_be_run_twice[2026-04-25-run-twice] PASSED" in done.stdout.str()
    assert "test_a_day_can_be_run_twice[2026-04-25-deterministic] PASSED" in done.stdout.str()
    assert not (pytester.path / ".twice" / "ledger.db").exists()


@pytest.mark.full
@pytest.mark.slow(reason="starts a Spark of its own, as a user's CI does")
def test_the_tests_of_a_new_project_pass_as_its_user_runs_them(tmp_path):
    new_project(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TWICE_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-v", *PLUGIN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
