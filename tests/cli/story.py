"""A small pipeline, what happened to it, and what status says of that: without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from tests.support.history import History
from twice import Day, Merge, Overwrite, Pipeline, Table
from twice.engine.status import status
from twice.ledger import InputRecord, ManualClock
from twice.model.scopes import Scope
from twice.model.windows import Window

ONE = datetime(2026, 4, 1, tzinfo=timezone.utc)


def shop() -> Pipeline:
    """Build a pipeline raw → facts → people."""
    made = Pipeline("shop", grain=Day)
    raw = Table("lake.a.raw", partition=Day("d"), write=Overwrite())
    facts = Table("lake.a.facts", partition=Day("d"), write=Overwrite(), dimensions=["tenant"])
    people = Table("lake.a.people", key=["id"], write=Merge(version="v"))
    made.sql("raw", reads={}, writes=raw, query="select 1")
    made.sql("facts", reads={"raw": raw, "people": people.latest()}, writes=facts, query="select 2")
    made.sql("people", reads={"raw": raw}, writes=people, query="select 3")
    return made


class Story(History):
    """The history of a small pipeline, in April of 2026, and what status says of it."""

    def __init__(self, url: str, pipeline: Pipeline | None = None) -> None:
        self.clock = ManualClock(datetime(2026, 5, 1, tzinfo=timezone.utc))
        super().__init__(url, pipeline or shop(), clock=self.clock)

    def scope(self, day: int, count: int = 1, **dimensions: str) -> Scope:
        start = ONE + timedelta(days=day - 1)
        return Scope.of(Window(start, start + timedelta(days=count)), dimensions)

    def reads(self, days: int | Iterable[int], text: str = "digest:1-a-b-c") -> list[InputRecord]:
        days = [days] if isinstance(days, int) else days
        starts = [(ONE + timedelta(days=day - 1)).isoformat() for day in days]
        return [
            InputRecord("raw", "lake.a.raw", "window", "1", dict.fromkeys(starts, text)),
            InputRecord("people", "lake.a.people", "latest", "9", {}),
        ]

    def states(self, step: str, **bounds) -> dict[str, str]:
        found = {each.step: each for each in status(self.ledger, self.pipeline, **bounds)}
        return {partition.name: partition.state for partition in found[step].partitions}

    def reasons(self, step: str, name: str) -> list[str]:
        found = {each.step: each for each in status(self.ledger, self.pipeline)}
        (partition,) = [partition for partition in found[step].partitions if partition.name == name]
        return [reason.text for reason in partition.reasons]
