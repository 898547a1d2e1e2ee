# ruff: noqa: INP001 - a folder on a path, not a package
"""What Python does first in Spark's workers of a check: this folder is only on their path.

It changes the working directory and moves the clock, as the variables define, then runs the machine's sitecustomize.
"""

import importlib.machinery
import importlib.util
import os
import sys
import time
from pathlib import Path

_HERE = str(Path(__file__).parent)


def _begin() -> None:
    if directory := os.environ.get("TWICE_VERIFY_DIRECTORY"):
        os.chdir(directory)
    if seconds := os.environ.get("TWICE_VERIFY_CLOCK"):
        try:
            import time_machine
        except ImportError:  # a check that moved no clock must not pass
            raise SystemExit("twice verify: the Python of Spark's workers has no time-machine") from None
        time_machine.travel(time.time() + float(seconds), tick=True).start()


def _go_on() -> None:
    """Run the sitecustomize that this one shadows."""
    elsewhere = [place for place in sys.path if place != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_begin()
_go_on()
