"""What users import: the names, that they resolve, and that none of them costs a Spark import."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys

import pytest

import twice
from twice import errors

PUBLIC = [
    "BackfillResult",
    "ConfigError",
    "Conflict",
    "Day",
    "DefinitionError",
    "Duration",
    "EnvironmentProblem",
    "GateFailed",
    "Grain",
    "Hour",
    "InsertOnly",
    "Interrupted",
    "KeyViolation",
    "LateData",
    "LeaseLost",
    "Ledger",
    "LedgerBusy",
    "LedgerError",
    "Merge",
    "MergeRefused",
    "Month",
    "NotDeterministic",
    "NotSeparable",
    "OutOfScope",
    "Overwrite",
    "PartitionStatus",
    "PermanentError",
    "Pipeline",
    "PipelineStatus",
    "QuarterHour",
    "RetriesExhausted",
    "Retry",
    "RunResult",
    "SchemaRefused",
    "Scope",
    "ScopeHeld",
    "Status",
    "StepFailed",
    "StepResult",
    "StepStatus",
    "StoreRefused",
    "StreamRefused",
    "StreamResult",
    "Table",
    "TransientError",
    "TwiceError",
    "UndoResult",
    "UsageError",
    "Week",
    "Whole",
    "Window",
    "WriteRefused",
    "as_of_join",
    "backfill",
    "days",
    "gates",
    "hours",
    "key_hash",
    "key_of",
    "key_sql",
    "minutes",
    "open_ledger",
    "preview",
    "run",
    "run_stream",
    "status",
    "undo",
]
ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TwiceError)]


def drawn() -> dict[str, tuple[str, int]]:
    """Read the tree at the top of errors.py: each error with its parent and exit code."""
    found: dict[str, tuple[str, int]] = {}
    above = [("TwiceError", 3)]
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│ ]*)[├└]── (\w+)(?: +exit (\d+))?", line):
            depth = len(match[1]) // 4 + 1
            parent, code = above[depth - 1]
            code = int(match[3]) if match[3] else code
            above = [*above[:depth], (match[2], code)]
            found[match[2]] = (parent, code)
    return found


def test_the_public_names_are_these():
    assert twice.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves_and_is_documented(name):
    found = getattr(twice, name)
    assert inspect.getdoc(found)


def test_the_whole_tree_of_errors_is_public():
    assert {kind.__name__ for kind in ERRORS} <= set(PUBLIC)
    assert all(getattr(twice, kind.__name__) is kind for kind in ERRORS)


def test_names_that_are_loaded_when_used_are_offered_for_completion():
    assert set(PUBLIC) <= set(dir(twice))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'twice' has no attribute 'append'"):
        _ = twice.append


def test_star_import_brings_the_public_names():
    names: dict[str, object] = {}
    exec("from twice import *", names)  # noqa: S102 - as a user writes it
    assert set(PUBLIC) <= set(names)


def test_the_names_for_tests_are_these_and_resolve():
    import twice.testing

    assert twice.testing.__all__ == [
        "assert_deterministic",
        "assert_idempotent",
        "assert_same_table",
        "assert_separable",
        "check",
        "run",
        "table_of",
    ]
    assert all(inspect.getdoc(getattr(twice.testing, name)) for name in twice.testing.__all__)
    with pytest.raises(AttributeError, match=r"module 'twice\.testing' has no attribute 'assert_safe'"):
        _ = twice.testing.assert_safe


def test_defining_a_pipeline_imports_neither_spark_nor_a_database():
    code = """
import sys
from twice import Day, Hour, Merge, Overwrite, Pipeline, Table, Window, days, gates, key_hash
shop = Pipeline("shop", grain=Day)
raw = Table("lake.raw.o", partition=Day("d"))
@shop.step(reads={"o": raw.window(lookback=days(1))}, writes=Table("lake.a.b", partition=Day("d"), write=Overwrite()))
def s(o): return o
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"pyspark", "py4j", "pandas", "sqlalchemy"}, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_errors_form_the_tree_that_is_drawn():
    real = {kind.__name__: (kind.__base__.__name__, kind.exit_code) for kind in ERRORS if kind is not twice.TwiceError}
    assert real == drawn()
    assert twice.TwiceError.__base__ is Exception


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_errors_survive_pickle_and_copy(kind):
    error = kind("it broke", unchanged="nothing was changed", next_step="twice status")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.message, again.unchanged, again.next_step) == ("it broke", "nothing was changed", "twice status")
        assert (str(again), again.exit_code, again.args) == (str(error), kind.exit_code, ("it broke",))


def test_errors_raised_elsewhere_in_the_package_are_picklable_too():
    from twice.ledger.db import sqlite_problems  # noqa: F401 - its errors join the tree

    kinds, open_kinds = set(), [twice.TwiceError]
    while open_kinds:
        kind = open_kinds.pop()
        kinds.add(kind)
        open_kinds += kind.__subclasses__()
    for kind in kinds:
        again = pickle.loads(pickle.dumps(kind("it broke", unchanged="all", next_step="x")))
        assert (type(again), again.message, again.unchanged, again.next_step) == (kind, "it broke", "all", "x")
