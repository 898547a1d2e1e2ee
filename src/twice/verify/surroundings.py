"""An environment with other values, for code of the user's project alone: Spark and libraries keep theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from twice.code.project import is_ours

# Variables that programs and libraries need, and those that already have another value in the other process.
_KEPT = (
    "HADOOP", "HOME", "HOSTNAME", "JAVA", "LANG", "LC_", "LD_", "LOGNAME", "PATH", "PYSPARK", "PYTHON", "SPARK",
    "TMPDIR", "TWICE", "TZ", "USER",
)  # fmt: skip
# The modules through which Python asks; as files, or as what is frozen into the interpreter.
_ASKING = ("os", "_collections_abc", "posixpath")
_BETWEEN = frozenset(
    [*(f"<frozen {name}>" for name in _ASKING), *(str(sys.modules[name].__file__) for name in _ASKING)]
)


class _OtherAnswers(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - what `from os import environ` got is changed in place
    """The environment, as long as the code of a step runs."""

    asked: set[str]

    def __getitem__(self, name: str) -> str:
        if name.startswith(_KEPT) or not _is_asked_by_project():
            return str(super().__getitem__(name))
        self.asked.add(name)
        return f"another {name}"


@contextmanager
def other_answers(asked: set[str]) -> Iterator[None]:
    """Give the project's own code another value for every variable, set or not; record which it reads."""
    environment, before = os.environ, type(os.environ)
    environment.__class__ = _OtherAnswers
    environment.asked = asked  # type: ignore[attr-defined]
    try:
        yield
    finally:
        environment.__class__ = before
        del environment.asked  # type: ignore[attr-defined]


def _is_asked_by_project() -> bool:
    frame = sys._getframe(2)  # noqa: SLF001 - a traceback would have to be raised first
    while frame.f_back is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    file = frame.f_code.co_filename
    return not file.startswith("<frozen") and is_ours(file)
