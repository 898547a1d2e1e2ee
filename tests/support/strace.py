"""A function in a process of its own under strace, which counts, breaks or ends it at the n-th system call.

The process is forked from one that has everything loaded, stops, and continues once strace holds it: no hook in the
product, and no Python to start for each of some hundred system calls.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.processes import forks, until

_ANY_TRACER, _SET_TRACER = -1, 0x59616D61

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def _when_held(said: str, act: Callable[..., object], arguments: Sequence[object]) -> None:
    """Stop; once strace holds this process, act, and write down how it ended."""
    ctypes.CDLL(None).prctl(_SET_TRACER, _ANY_TRACER, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        answer = act(*arguments)
        Path(said).write_text(f"done: {answer}")
    except BaseException:
        Path(said).write_text(traceback.format_exc())
    finally:
        os._exit(0)


def traced(
    folder: Path, options: Sequence[str], act: Callable[..., object], *arguments: object
) -> tuple[int | None, str]:
    """Let strace watch a call of `act`; return the exit code, and `done: …` or the traceback ("" if it was killed).

    The trace and the answer lie in `folder`, as `trace` and `said`.
    """
    said = folder / "said"
    said.unlink(missing_ok=True)
    process = forks.Process(target=_when_held, args=(str(said), act, arguments), daemon=True)
    process.start()
    state, held = Path(f"/proc/{process.pid}/stat"), Path(f"/proc/{process.pid}/status")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] in "tT")
    command = ["strace", "-qq", "-o", str(folder / "trace"), "-p", str(process.pid), *options]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: "TracerPid:\t0\n" not in held.read_text())
        os.kill(process.pid, signal.SIGCONT)
        process.join(60)
    finally:
        process.kill()
        tracer.wait(10)
    return process.exitcode, said.read_text() if said.exists() else ""
