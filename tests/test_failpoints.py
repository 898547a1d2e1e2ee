"""Fail points act where they are told to, once, and a typing error in the setting is loud."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twice import failpoints
from twice.errors import TransientError
from twice.failpoints import FAIL_POINTS, fail_point

SOURCE = Path(failpoints.__file__).parent


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv("TWICE_FAILPOINT", raising=False)
    monkeypatch.delenv("TWICE_FAILPOINT_AT", raising=False)
    failpoints.reset()


def child(action: str) -> subprocess.Popen[str]:
    code = "from twice.failpoints import fail_point; fail_point('stage.written'); print('went on')"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TWICE_FAILPOINT": f"stage.written:{action}"},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_without_the_setting_nothing_happens():
    for name in FAIL_POINTS:
        fail_point(name)


def test_only_the_named_point_acts(monkeypatch):
    monkeypatch.setenv("TWICE_FAILPOINT", "gate.passed:raise")
    fail_point("stage.written")
    with pytest.raises(TransientError, match=r"fail point gate.passed"):
        fail_point("gate.passed")
    fail_point("gate.passed")


def test_a_point_may_act_at_a_later_visit(monkeypatch):
    monkeypatch.setenv("TWICE_FAILPOINT", "gate.passed:raise")
    monkeypatch.setenv("TWICE_FAILPOINT_AT", "3")
    fail_point("gate.passed")
    fail_point("gate.passed")
    with pytest.raises(TransientError):
        fail_point("gate.passed")


def test_a_watcher_sees_what_is_reached_until_it_goes():
    seen: list[str] = []
    fail_point("gate.passed")
    with failpoints.watched(seen.append):
        fail_point("stage.written")
        fail_point("gate.passed")
    fail_point("record.written")
    assert seen == ["stage.written", "gate.passed"]


@pytest.mark.parametrize("setting", ["gate.pased:kill", "gate.passed", "gate.passed:kil", "gate.passed:"])
def test_a_typing_error_in_the_setting_is_loud(monkeypatch, setting):
    monkeypatch.setenv("TWICE_FAILPOINT", setting)
    with pytest.raises(AssertionError, match=r"write NAME:kill\|raise\|pause"):
        fail_point("stage.written")


def test_an_unregistered_point_is_loud(monkeypatch):
    monkeypatch.setenv("TWICE_FAILPOINT", "gate.passed:raise")
    with pytest.raises(AssertionError, match="unregistered fail point 'x'"):
        fail_point("x")


@pytest.mark.crash
def test_kill_ends_the_process_on_the_spot():
    process = child("kill")
    assert process.communicate(timeout=20)[0] == ""
    assert process.returncode == -signal.SIGKILL


@pytest.mark.crash
def test_pause_stops_the_process_until_it_is_continued():
    process = child("pause")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=20)[0] == "went on\n"
    assert process.returncode == 0


def test_every_registered_point_stands_in_the_code_and_no_other_does():
    used = [
        (path, name)
        for path in SOURCE.rglob("*.py")
        if path.name != "failpoints.py"
        for name in re.findall(r'fail_point\(\s*"([^"]+)"', path.read_text())
    ]
    assert {name for _, name in used} == set(FAIL_POINTS)
    # A point of the engine is one line, and one more where a batch of a stream does the same; one inside a publish
    # stands in every store that has it.
    used = [(path, name) for path, name in used if path != SOURCE / "streams" / "batch.py"]
    engine = [name for path, name in used if path.is_relative_to(SOURCE / "engine")]
    assert sorted(engine) == sorted(set(engine))
    assert not set(engine) & {name for path, name in used if not path.is_relative_to(SOURCE / "engine")}


@pytest.mark.parametrize("store", ["iceberg", "sql", "parquet", "delta"])
def test_every_store_can_be_killed_right_before_its_commit(store):
    text = "".join(path.read_text() for path in (SOURCE / "store" / store).rglob("*.py"))
    assert re.search(r'fail_point\("(publish|parquet|delta)\.ready"\)', text)
