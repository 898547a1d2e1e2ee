"""Columns that `twice` itself adds to tables; they never enter a digest."""

from __future__ import annotations

WINDOW_COLUMN = "_twice_window"
LOADED_AT_COLUMN = "_twice_loaded_at"
FRAMEWORK_COLUMNS = frozenset({WINDOW_COLUMN, LOADED_AT_COLUMN})
