"""Spark's settings for a few rows.

A verification runs many short queries, each on tables of its own: compiling code for a query takes longer than
computing a few rows without it. `deterministic` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

# Up to this many copied rows, queries are interpreted.
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
