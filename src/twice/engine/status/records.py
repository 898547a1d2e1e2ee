"""What the ledger knows of one step, laid over the partitions of its table."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from twice.ledger import Holding, LastAttempt, second
from twice.model.scopes import Scope
from twice.model.windows import Window

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from twice.ledger import Ledger
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Table

Dimensions = tuple[tuple[str, str], ...]

# The dimensions of a scope that fixes none, as the ledger writes them.
ANY = "{}"
_EVER = Window(datetime(1, 1, 2, tzinfo=timezone.utc), datetime(9999, 12, 30, tzinfo=timezone.utc))


# Without stripping blanks around the text: there are as many texts as partitions.
_decode = json.JSONDecoder().raw_decode


class Slot(NamedTuple):
    """One partition of a table: its scope without dimensions, its name, and its ends as holdings show them."""

    scope: Scope
    label: str
    ends: tuple[str | None, str | None]


WHOLE = (Slot(Scope(None), "whole table", (None, None)),)


class Slots:
    """The partitions of a window; tables of one grain share them."""

    def __init__(self, window: Window | None, zone: ZoneInfo) -> None:
        self._window, self._zone = window, zone
        self._cut: dict[str, tuple[Slot, ...]] = {}

    def of(self, table: Table) -> tuple[Slot, ...]:
        """Return the partitions of a table; a table without is one."""
        if table.partition is None:
            return WHOLE
        if self._window is None:
            return ()
        grain, zone = table.partition.grain, self._zone
        if grain.name not in self._cut:
            found, start = [], second(self._window.start)
            for each in grain.partitions(self._window, zone):
                end = each.end.isoformat()[:19]
                found.append(Slot(Scope(each), grain.label(each.start, zone), (start, end)))
                start = end
            self._cut[grain.name] = tuple(found)
        return self._cut[grain.name]


@dataclass(frozen=True)
class Record:
    """What the ledger knows of one step; `complete` if nothing of its table was left out."""

    step: Step
    holdings: Mapping[str, Mapping[tuple[str | None, str | None], Holding]]
    inputs: Mapping[str, str]
    attempts: Sequence[LastAttempt]
    complete: bool = False
    # What gates found and a run let through, by run.
    accepted: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, ledger: Ledger | None, pipeline: Pipeline, step: Step, start: datetime | None, end: datetime | None
    ) -> Record:
        """Read what the ledger knows of a step between two instants, of which each may be open."""
        if ledger is None:
            return cls(step, {}, {}, ())
        window = Window(start or _EVER.start, end or _EVER.end)
        limit = window if (start or end) and step.writes.partition else None
        holdings: dict[str, dict[tuple[str | None, str | None], Holding]] = {}
        for holding in ledger.outputs.holdings(step.writes.name, limit):
            holdings.setdefault(holding.dimensions, {})[holding[:2]] = holding
        inputs = ledger.outputs.input_texts(step.writes.name, limit) if holdings else {}
        attempts = _alive(ledger, ledger.attempts.newest(pipeline.name, step.name, window))
        accepted = ledger.attempts.accepted_gates(pipeline.name, step.name)
        return cls(step, holdings, inputs, attempts, complete=limit is None, accepted=accepted)

    def read(self, holding: Holding) -> list[Mapping[str, Any]]:
        """Return the inputs that a partition was made from, as the ledger writes them."""
        text = self.inputs.get(holding.inputs)
        return _decode(text)[0] if text else []

    def ends(self) -> Iterator[str]:
        """Yield the ends of all windows that the ledger knows of a partitioned table."""
        if self.step.writes.partition:
            for holdings in self.holdings.values():
                yield from (end for ends in holdings for end in ends if end)
            yield from (end for attempt in self.attempts for end in attempt[2:4] if end)

    def dimensions(self) -> list[str]:
        """Every combination of dimension values that was ever run; the open one alone if none was."""
        found = {*self.holdings, *(attempt.dimensions for attempt in self.attempts)}
        return sorted(found, key=dimensions_of) or [ANY]

    def last_attempts(self, slots: Sequence[Slot]) -> dict[str, dict[int, LastAttempt]]:
        """Lay attempts over the partitions in the order they were made: the last one stays visible."""
        starts = [slot.ends[0] or "" for slot in slots]
        found: dict[str, dict[int, LastAttempt]] = {}
        for attempt in self.attempts:
            mine = found.setdefault(attempt.dimensions, {})
            if attempt.start is None or attempt.end is None:
                if not self.step.writes.partition:
                    mine[0] = attempt
                continue
            for index in range(bisect_left(starts, attempt.start), bisect_left(starts, attempt.end)):
                mine[index] = attempt
        return found


@lru_cache(maxsize=4096)
def dimensions_of(text: str) -> Dimensions:
    """Read dimension values as the ledger writes them."""
    return tuple(sorted(json.loads(text).items()))


def moment(text: str) -> datetime:
    """Read an end of a window as holdings show it."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def _alive(ledger: Ledger, attempts: list[LastAttempt]) -> list[LastAttempt]:
    """Replace `running` where the process is gone by what is true now."""
    running = [attempt.id for attempt in attempts if attempt.status == "running"]
    if not running:
        return attempts
    states = ledger.attempts.states(running)
    return [attempt._replace(status=states.get(attempt.id, attempt.status)) for attempt in attempts]
