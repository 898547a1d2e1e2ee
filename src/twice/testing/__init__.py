"""What users import in their own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twice.testing.asserts import assert_deterministic, assert_idempotent, assert_same_table, assert_separable
    from twice.testing.checking import check
    from twice.testing.steps import run
    from twice.testing.tables import table_of

__all__ = [
    "assert_deterministic",
    "assert_idempotent",
    "assert_same_table",
    "assert_separable",
    "check",
    "run",
    "table_of",
]

# These need Spark, which collecting tests with the plugin must not load.
_WITH_SPARK = {
    "assert_deterministic": "twice.testing.asserts",
    "assert_idempotent": "twice.testing.asserts",
    "assert_same_table": "twice.testing.asserts",
    "assert_separable": "twice.testing.asserts",
    "check": "twice.testing.checking",
    "run": "twice.testing.steps",
    "table_of": "twice.testing.tables",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_SPARK:
        from importlib import import_module

        return getattr(import_module(_WITH_SPARK[name]), name)
    raise AttributeError(f"module 'twice.testing' has no attribute {name!r}")
