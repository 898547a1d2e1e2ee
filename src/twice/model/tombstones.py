"""Which effects were settled, kept with the table itself: a ledger that was restored knows less than its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from twice.model.scopes import Scope

# The property of a table.
PROPERTY = "twice.effects"
# What is kept of each effect: the newest spans of each combination of dimension values, the newest combinations.
_SPANS = 500
_PLACES = 1_000
_ALWAYS = ("", "")


@dataclass
class Tombstones:
    """For each effect the scopes that are settled; neighbouring windows are kept as one span.

    >>> from twice import Day
    >>> from zoneinfo import ZoneInfo
    >>> days = [Scope(Day.unit(f"2026-04-{day}", ZoneInfo("UTC"))) for day in (25, 26, 28)]
    >>> known = Tombstones.read(Tombstones().adding(("shop.post", day) for day in days[:2]).text)
    >>> [known.cover("shop.post", day) for day in days]
    [True, True, False]
    """

    _spans: dict[str, dict[str, list[tuple[str, str]]]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | None) -> Tombstones:
        """Read a table's property; a text that twice did not write counts as empty."""
        try:
            found = json.loads(text or "{}")
            spans = {
                effect: {place: [(str(start), str(end)) for start, end in pairs] for place, pairs in places.items()}
                for effect, places in found.items()
            }
        except (ValueError, TypeError, AttributeError):
            return cls()
        return cls(spans)

    @property
    def text(self) -> str:
        """Write them as a property; empty if there are none."""
        return json.dumps(self._spans, sort_keys=True, separators=(",", ":")) if self._spans else ""

    def adding(self, settled: Iterable[tuple[str, Scope]]) -> Tombstones:
        """Return them with further scopes."""
        spans = {effect: {place: [*pairs] for place, pairs in places.items()} for effect, places in self._spans.items()}
        for effect, scope in settled:
            spans.setdefault(effect, {}).setdefault(_place(scope), []).append(_span(scope))
        joined = {
            effect: {place: _joined(pairs)[-_SPANS:] for place, pairs in places.items()}
            for effect, places in spans.items()
        }
        return Tombstones({effect: _newest(places) for effect, places in joined.items()})

    def cover(self, effect: str, scope: Scope) -> bool:
        """Return whether the effect of a scope is settled."""
        start, end = _span(scope)
        found = self._spans.get(effect, {}).get(_place(scope), [])
        return any(first <= start and end <= last for first, last in found)


def _place(scope: Scope) -> str:
    return json.dumps(dict(scope.dimensions), sort_keys=True, ensure_ascii=True)


def _span(scope: Scope) -> tuple[str, str]:
    return (scope.window.start.isoformat(), scope.window.end.isoformat()) if scope.window else _ALWAYS


def _newest(places: dict[str, list[tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    by_end = sorted(places, key=lambda place: places[place][-1][1])
    return {place: places[place] for place in by_end[-_PLACES:]}


def _joined(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for start, end in sorted(set(pairs)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
