"""What a run owns, locks, replaces and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twice.model.windows import Window


@dataclass(frozen=True)
class Scope:
    """A window and fixed dimension values; no window means the whole table.

    Two scopes overlap unless their windows are disjoint or they fix one dimension to
    different values. A scope that leaves a dimension open owns all of its values.

    >>> from twice import Scope
    >>> a, b = Scope.of(None, {"tenant": "acme"}), Scope.of(None, {"tenant": "bolt"})
    >>> a.overlaps(b), a.overlaps(Scope.of(None))
    (False, True)
    """

    window: Window | None
    dimensions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.dimensions == ():  # most scopes, in long lists
            return
        # One spelling per scope: 7 and "7" must not look like two tenants.
        known = sorted((str(name), str(value)) for name, value in self.dimensions)
        object.__setattr__(self, "dimensions", tuple(known))

    @classmethod
    def of(cls, window: Window | None, dimensions: Mapping[str, str] | None = None) -> Scope:
        """Build a scope; dimensions are kept sorted by name."""
        return cls(window, tuple((dimensions or {}).items()))

    def overlaps(self, other: Scope) -> bool:
        """Return whether some row could belong to both."""
        if self.window and other.window and not self.window.overlaps(other.window):
            return False
        mine, theirs = dict(self.dimensions), dict(other.dimensions)
        return all(mine[name] == theirs[name] for name in mine.keys() & theirs.keys())

    def __str__(self) -> str:
        parts = [str(self.window) if self.window else "whole table"]
        parts += [f"{name}={value}" for name, value in self.dimensions]
        return " ".join(parts)

    def to_json(self) -> dict[str, object]:
        """Return the scope as JSON scalars."""
        return {
            "window": self.window.to_json() if self.window else None,
            "dimensions": dict(self.dimensions),
        }
