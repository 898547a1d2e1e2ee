"""Choose the front end for a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePath

from twice.audit.model import Job

ENDINGS = frozenset({".py", ".sql", ".ipynb", ".hql", ".ddl", ".dml", ".bq", ".pgsql", ".tsql"})
_TEST = re.compile(r"(^|/)(tests?|testing|conftest\.py|test_[^/]*\.py|[^/]*_test\.py)(/|$)")
_SHEBANG = re.compile(r"#![^\n]*python")

Neighbour = Callable[[str], str | None]
"""Returns the text of another file of the same tree by its path relative to the file's folder, or None."""


def _nobody(_path: str) -> str | None:
    return None


def prepare() -> None:
    """Load all front ends, which are otherwise loaded when the first file needs them."""
    from twice.audit.languages import notebooks, sqlfiles  # noqa: F401 - loaded for later
    from twice.audit.languages.python import reading  # noqa: F401


def read_file(path: str, text: str, *, dialect: str = "", neighbour: Neighbour = _nobody) -> Job:
    """Read one file into the statement model."""
    ending = PurePath(path).suffix.lower()
    if ending == ".ipynb":
        from twice.audit.languages.notebooks import read_notebook

        job = read_notebook(path, text, dialect, neighbour)
    elif is_python(path, text):
        from twice.audit.languages.python.reading import read_python

        job = read_python(path, text, dialect, neighbour)
    else:
        from twice.audit.languages.sqlfiles import read_sql_file

        job = read_sql_file(path, text, dialect, neighbour)
    job.is_test = is_test(path)
    return job


def is_python(path: str, text: str) -> bool:
    """Return whether a file is Python: by its ending, or without one by its first line."""
    ending = PurePath(path).suffix.lower()
    return ending == ".py" or (not ending and bool(_SHEBANG.match(text)))


@lru_cache(maxsize=256)
def is_test(path: str) -> bool:
    """Return whether a file holds tests, by its name."""
    return bool(_TEST.search(PurePath(path).as_posix()))
