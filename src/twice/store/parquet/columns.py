"""A table's columns as the log keeps them: Spark's JSON, added to but never changed."""

from __future__ import annotations

import json
from typing import Any

from twice.errors import Conflict


def together(table: str, there: str, new: str) -> str:
    """Return the live columns and behind them those that only the new rows have."""
    fields: dict[str, Any] = {field["name"]: field for field in json.loads(there)["fields"]}
    for field in json.loads(new)["fields"]:
        known = fields.setdefault(field["name"], field)
        if known["type"] != field["type"]:
            raise Conflict(
                f"{table}: another run added the column {field['name']} with another type in the meantime",
                unchanged="nothing was published",
                next_step="run it again: the new run sees the type that the table has",
            )
    return json.dumps({"type": "struct", "fields": list(fields.values())})
