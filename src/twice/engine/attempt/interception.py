"""The calls that a step makes to PySpark, seen before Spark runs them.

The methods below are wrapped once per process. A wrapper passes the call on, unless a step is running in this thread,
or in another thread with the session of the call: then the watchers of that step see it first, and may raise.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = Literal[
    "write",  # changes something outside of the session
    "read",  # gives rows, or what is computed from them, to Python at once
    "cut",  # gives a DataFrame or an RDD that no longer shows the plan it comes from
    "statement",  # a SQL statement, which may be any of them
    "expression",  # a text that Spark parses as an expression
]
_WRITES = ("foreach", "foreachPartition", "mergeInto", "write", "writeStream", "writeTo")
_READS = (
    "approxQuantile", "collect", "corr", "count", "cov", "crosstab", "first", "freqItems", "head", "isEmpty", "show",
    "tail", "take", "toArrow", "toJSON", "toLocalIterator", "toPandas",
)  # fmt: skip
_SAVES = (
    "foreach", "foreachPartition", "saveAsHadoopDataset", "saveAsHadoopFile", "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile", "saveAsPickleFile", "saveAsSequenceFile", "saveAsTextFile",
)  # fmt: skip
_DELTA = (
    "delete", "merge", "optimize", "restoreToTimestamp", "restoreToVersion", "update", "upgradeTableProtocol", "vacuum",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call of PySpark's API: its kind, its name as users write it, the object, and the arguments."""

    kind: Kind
    name: str
    on: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts that Spark parses: a statement, or expressions."""
        if self.kind == "statement":
            given = [self.arguments[0] if self.arguments else self.named.get("sqlQuery")]
        else:
            given = [*self.arguments, *self.named.values()]
        flat = [one for each in given for one in (each if isinstance(each, list) else [each])]
        return [one for one in flat if isinstance(one, str)]

    @property
    def frame(self) -> Any:
        """The DataFrame that is read."""
        return self.on._df if self.name == "pivot" else self.on  # noqa: SLF001 - grouped rows have no other way back

    @property
    def places(self) -> dict[str, Any]:
        """What PySpark puts into the `{…}` of a statement."""
        return {name: value for name, value in self.named.items() if name not in {"sqlQuery", "args"}}

    @property
    def is_lazy(self) -> bool:
        """Return whether nothing is read yet: pivot() reads rows only if it must find the values itself."""
        values = self.arguments[1] if len(self.arguments) > 1 else self.named.get("values")
        return self.name == "pivot" and values is not None


Watcher = Callable[[Call], None]


@dataclass(frozen=True)
class _AtWork:
    thread: int
    session: SparkSession
    watcher: Watcher


_lock = threading.Lock()
_at_work: tuple[_AtWork, ...] = ()
_here = threading.local()


@contextmanager
def watched_calls(session: SparkSession, watcher: Watcher) -> Iterator[None]:
    """Show calls of all threads with this session to the watcher; the outermost watcher is first."""
    global _at_work  # noqa: PLW0603 - PySpark's classes are global, and so is what their wrappers read
    _wrap_once()
    mine = _AtWork(threading.get_ident(), session, watcher)
    with _lock:
        _at_work = (*_at_work, mine)
    try:
        yield
    finally:
        with _lock:
            _at_work = tuple(each for each in _at_work if each is not mine)


def calling_line() -> str:
    """Return file and line of the code that called PySpark: the nearest frame outside of PySpark and twice."""
    frame = sys._getframe(1)  # noqa: SLF001 - a traceback would have to be raised first
    while frame.f_back is not None and _is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{frame.f_lineno}"


def _is_machinery(file: str) -> bool:
    import py4j
    import pyspark

    folders = [Path(__file__).parents[2], *(Path(str(package.__file__)).parent for package in (pyspark, py4j))]
    # A cached property stands between its caller and PySpark.
    return file == functools.__file__ or any(Path(file).is_relative_to(folder) for folder in folders)


def _watchers(call: Call) -> list[Watcher]:
    here, session = threading.get_ident(), _session_of(call.on)
    return [each.watcher for each in _at_work if each.thread == here or each.session is session]


def _session_of(thing: Any) -> Any:
    names = ("sparkSession", "_session", "session", "_sparkSession")
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), thing)


def _seen_first(kind: Kind, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(on: Any, *arguments: Any, **named: Any) -> Any:
        # Calls by PySpark itself, and by a watcher, are part of the call that was seen.
        if not _at_work or getattr(_here, "inside", False):
            return original(on, *arguments, **named)
        _here.inside = True
        try:
            found = Call(kind, name, on, arguments, named)
            for watcher in [] if found.is_lazy else _watchers(found):
                watcher(found)
            return original(on, *arguments, **named)
        finally:
            _here.inside = False

    return call


@functools.cache
def _wrap_once() -> None:
    """Wrap PySpark's methods; names that this version does not have are left out."""
    from pyspark import RDD
    from pyspark.sql import SparkSession
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.group import GroupedData

    frame = _frame_class()
    rows: list[tuple[type, Kind, tuple[str, ...]]] = [
        (frame, "write", _WRITES),
        (frame, "read", _READS),
        (frame, "cut", ("checkpoint", "localCheckpoint", "rdd")),
        (frame, "expression", ("filter", "selectExpr", "where")),
        (RDD, "write", _SAVES),
        (Catalog, "write", ("createExternalTable", "createTable", "recoverPartitions")),
        (GroupedData, "read", ("pivot",)),
        (SparkSession, "statement", ("sql",)),
    ]
    for owner, kind, names in rows:
        for name in names:
            _wrap(owner, kind, name)
    _wrap_expr()
    wrap_delta()


def _frame_class() -> type:
    try:
        from pyspark.sql.classic.dataframe import DataFrame
    except ImportError:  # before Spark 4
        from pyspark.sql import DataFrame  # type: ignore[assignment]
    return DataFrame


def _wrap(owner: type, kind: Kind, name: str) -> None:
    original = vars(owner).get(name)
    if isinstance(original, property) and original.fget is not None:
        setattr(owner, name, property(_seen_first(kind, name, original.fget), doc=original.__doc__))
    elif isinstance(original, functools.cached_property):
        seen = functools.cached_property(_seen_first(kind, name, original.func))
        seen.__set_name__(owner, name)
        setattr(owner, name, seen)
    elif callable(original):
        setattr(owner, name, _seen_first(kind, name, original))


def wrap_delta() -> None:
    """Wrap Delta's own Python API where it is installed: it writes without a DataFrame's help."""
    try:
        table = importlib.import_module("delta.tables").DeltaTable
    except ImportError:
        return
    for name in _DELTA:
        _wrap(table, "write", name)


def _wrap_expr() -> None:
    """Wrap what `expr` calls: users hold `expr` itself since they imported it."""
    from pyspark.sql import functions

    home = sys.modules[functions.expr.__module__]
    invoke = vars(home)["_invoke_function"]
    seen = _seen_first("expression", "expr", lambda _, text: invoke("expr", text))

    @functools.wraps(invoke)
    def call(name: str, *arguments: Any) -> Any:
        return seen(None, *arguments) if name == "expr" else invoke(name, *arguments)

    vars(home)["_invoke_function"] = call
