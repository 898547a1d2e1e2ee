"""Options of Java: all that a start of Spark names, and those that twice adds where Spark runs on one machine.

Spark's classes fill more space than Java first sets aside for classes, so that Java would collect garbage several times
before the first job. The parallel collector is made for throughput: on two cores, runs of seconds and of minutes take
about a tenth less time with it than with Java's default, which trades throughput for short pauses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

EXTRA = "spark.driver.extraJavaOptions"
DEFAULT = "spark.driver.defaultJavaOptions"
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ROOM_FOR_CLASSES = "-XX:MetaspaceSize=256m"
_COLLECTOR = "-XX:+UseParallelGC"
# Java does not start with two collectors; a file of options may name one.
_CHOICE = re.compile(r"-XX:[+-]?Use\w+GC\b|(^|\s)@\S")
_FILES = ("spark-defaults.conf", "spark-env.sh")


def named(settings: Mapping[str, str]) -> str:
    """Return the options of Java in some settings of Spark, and in the environment."""
    around = [os.environ.get(name, "") for name in _VARIABLES]
    return " ".join([*around, settings.get(DEFAULT, ""), settings.get(EXTRA, "")])


def added(given: Mapping[str, str], folders: Sequence[Path]) -> list[str]:
    """Return the options that a local start adds to those of a profile; no collector where there is a choice already.

    `folders` may hold further settings of Spark.
    """
    files = [folder / name for folder in folders for name in _FILES]
    chosen = _CHOICE.search(named(given)) or any(map(_chooses, files))
    return [_ROOM_FOR_CLASSES] if chosen else [_ROOM_FOR_CLASSES, _COLLECTOR]


def _chooses(file: Path) -> bool:
    try:
        return _CHOICE.search(file.read_text(encoding="utf-8", errors="replace")) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # Spark may read what this process may not
        return True
