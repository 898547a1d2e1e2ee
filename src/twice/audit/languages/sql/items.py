"""What a SQL text does, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twice.audit.expressions import Expr
from twice.audit.model import Write
from twice.audit.places import Place
from twice.audit.queries import Query


@dataclass(frozen=True)
class Control:
    """A statement that changes no table: it begins or ends a transaction, or sets something."""

    kind: Literal["begin", "commit", "rollback", "set", "guard", "block", "end", "assign", "call", "other"]
    place: Place
    name: str = ""
    value: str = ""
    expr: Expr | None = None


@dataclass
class Read:
    """A query that is only read."""

    query: Query
    place: Place


Item = Write | Read | Control
