"""Scopes, inputs and details as columns and JSON text; nothing else is ever stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.db.schema import instant_of, instant_text
from twice.ledger.values import InputRecord
from twice.model.scopes import Scope
from twice.model.windows import Window
from twice.redaction import redact


def to_text(value: object) -> str:
    """Write JSON in one canonical form."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the ledger stores JSON only: {error}") from None


def storable(text: str) -> str:
    """Drop passwords from free text, and what databases cannot store (half characters, NUL)."""
    return redact(text).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def details_text(details: Mapping[str, object]) -> str:
    """Write details without the passwords that may be in them."""
    return to_text(_redacted(details))


def _redacted(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redacted(item) for name, item in value.items()}
    return [_redacted(item) for item in value] if isinstance(value, list | tuple) else value


def scope_columns(scope: Scope) -> dict[str, object]:
    """Return a scope as the three columns that hold it."""
    return {
        "window_start": scope.window.start if scope.window else None,
        "window_end": scope.window.end if scope.window else None,
        "dimensions": to_text(dict(scope.dimensions)),
    }


def scope_of(row: Any) -> Scope:
    """Read a scope back from its three columns."""
    window = Window(row.window_start, row.window_end) if row.window_start else None
    # Most scopes have no dimensions, and lists of outputs are long.
    return Scope(window) if row.dimensions == "{}" else Scope.of(window, json.loads(row.dimensions))


def scope_text(scope: Scope) -> str:
    """Return the text that two scopes share exactly when they are the same."""
    window = scope.window
    span = f"{instant_text(window.start)}/{instant_text(window.end)}" if window else "*"
    return f"{span} {to_text(dict(scope.dimensions))}"


def scopes_text(scopes: Sequence[Scope]) -> str:
    """Write the scopes of a claim."""
    return to_text(
        [
            [
                [instant_text(scope.window.start), instant_text(scope.window.end)] if scope.window else None,
                dict(scope.dimensions),
            ]
            for scope in scopes
        ]
    )


def scopes_of(text: str) -> tuple[Scope, ...]:
    """Read the scopes of a claim."""
    return tuple(
        Scope.of(Window(instant_of(span[0]), instant_of(span[1])) if span else None, dimensions)
        for span, dimensions in json.loads(text)
    )


def inputs_text(inputs: Sequence[InputRecord]) -> str:
    """Write pinned inputs."""
    return to_text([record.to_json() for record in inputs])


def inputs_of(text: str) -> tuple[InputRecord, ...]:
    """Read pinned inputs."""
    return tuple(InputRecord(**record) for record in json.loads(text))


def content_id(text: str) -> str:
    """Name a stored text by its content."""
    return hashlib.sha256(text.encode()).hexdigest()


def second(instant: datetime) -> str:
    """Return an instant as a text of whole seconds in UTC, `2026-04-25T00:00:00`: it sorts, and no grain is finer."""
    return instant.astimezone(timezone.utc).isoformat()[:19]


def second_of(column: sa.Column[datetime]) -> sa.ColumnElement[str]:
    """Select an instant as `second` writes it, without reading it as one."""
    return sa.func.substr(sa.type_coerce(column, sa.String), 1, 19)
