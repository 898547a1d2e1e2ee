"""Java without output that means nothing to a user: each start of Spark prints a line about modules of Java."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JavaGateway

# No option of Java or Spark keeps Java from printing these.
_NOISE = (b"WARNING: Using incubator modules:",)
_STANDARD_ERROR = 2
_PATIENCE = 5.0


def launch(settings: Mapping[str, str]) -> JavaGateway:
    """Start Spark's Java; what it prints as errors goes to standard error, without the noise."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    with without_noise() as errors:
        return launch_gateway(SparkConf().setAll([*settings.items()]), {"stderr": errors})  # type: ignore[no-untyped-call]


@contextmanager
def without_noise(to: int = _STANDARD_ERROR) -> Iterator[int]:
    """Yield what a process is given as its standard error; all that it prints there is forwarded.

    It goes to where `to` leads now, as it would if the process were given that.
    """
    end, errors = os.pipe()
    target = (os.fdopen(end, "rb"), os.dup(to))
    thread = threading.Thread(target=_forward, args=target, name="twice-java-errors", daemon=True)
    thread.start()
    started = False
    try:
        yield errors
        started = True
    finally:
        os.close(errors)
        if not started:  # the cause must be printed before what follows from it
            thread.join(_PATIENCE)


def _forward(lines: BinaryIO, to: int) -> None:
    try:
        with lines:
            for line in lines:
                if not line.startswith(_NOISE):
                    _write(to, line)
    finally:
        os.close(to)


def _write(to: int, line: bytes) -> None:
    while line:
        try:
            line = line[os.write(to, line) :]
        except OSError:  # closed, or the reader is gone: Java must not wait for it
            return
