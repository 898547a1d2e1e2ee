"""What Java prints as errors reaches the user, but for the lines that say nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from twice.engine.spark.quiet_java import without_noise

NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"


def read_all(end: int) -> str:
    with os.fdopen(end) as stream:
        return stream.read()


def printing(text: str, errors: int, times: int = 1) -> subprocess.Popen:
    code = f"import sys; sys.stdin.read(); sys.stderr.write({text!r} * {times})"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=errors)


def test_only_the_noise_is_left_out():
    end, to = os.pipe()
    with without_noise(to) as errors:
        process = printing(f"first\n{NOISE}\nlast {NOISE}\nno end", errors)
    process.communicate()  # it prints after Java was started, too
    expected, found = f"first\nlast {NOISE}\nno end", b""
    while len(found) < len(expected):
        found += os.read(end, 1000)
    assert found.decode() == expected
    os.close(to)
    os.close(end)


def test_what_a_start_that_failed_printed_comes_before_its_error():
    def start() -> None:
        with without_noise(to) as errors:
            printing(f"{NOISE}\nno such option\n", errors).communicate()
            raise RuntimeError("Java did not start")

    end, to = os.pipe()
    with pytest.raises(RuntimeError):
        start()
    os.close(to)
    assert read_all(end) == "no such option\n"


def test_a_reader_that_is_gone_keeps_no_process_waiting():
    end, to = os.pipe()
    os.close(end)
    with without_noise(to) as errors:
        process = printing("more than a pipe holds\n", errors, times=100_000)
    process.communicate(timeout=60)
    assert process.returncode == 0
    os.close(to)
