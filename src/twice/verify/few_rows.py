"""Spark's settings for a few rows.

A verification makes many short queries, each on tables of its own: to compile code for a query takes longer than to
compute a few rows without. `deterministic` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

# Up to so many copied rows, queries are interpreted.
FEW = 100_000
INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def settings_for(rows: int) -> Mapping[str, str]:
    """Return the settings with which cases on so many rows are run."""
    return INTERPRETED if rows <= FEW else {}
