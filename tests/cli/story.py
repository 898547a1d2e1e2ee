"""A small pipeline and a ledger that is filled by hand: what happened, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from twice import Day, Merge, Overwrite, Pipeline, Table
from twice.engine.fingerprint import fingerprint
from twice.engine.status import status
from twice.ledger import InputRecord, ManualClock, Output, open_ledger
from twice.model.scopes import Scope
from twice.model.windows import Window

ONE = datetime(2026, 4, 1, tzinfo=timezone.utc)
TTL = timedelta(minutes=1)


class Story:
    """A pipeline raw → facts → people, and a ledger that is filled by hand."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock(datetime(2026, 5, 1, tzinfo=timezone.utc))
        self.ledger = open_ledger(url, clock=self.clock)
        self.shop = Pipeline("shop", grain=Day)
        self.raw = Table("lake.a.raw", partition=Day("d"), write=Overwrite())
        self.facts = Table("lake.a.facts", partition=Day("d"), write=Overwrite(), dimensions=["tenant"])
        self.people = Table("lake.a.people", key=["id"], write=Merge(version="v"))
        self.shop.sql("raw", reads={}, writes=self.raw, query="select 1")
        self.shop.sql(
            "facts", reads={"raw": self.raw, "people": self.people.latest()}, writes=self.facts, query="select 2"
        )
        self.shop.sql("people", reads={"raw": self.raw}, writes=self.people, query="select 3")

    def scope(self, day: int, count: int = 1, **dimensions: str) -> Scope:
        start = ONE + timedelta(days=day - 1)
        return Scope.of(Window(start, start + timedelta(days=count)), dimensions)

    def attempt(self, step: str, scope: Scope) -> tuple[str, int]:
        run = self.ledger.start_run("shop", scope)
        target = self.shop.steps[step].writes.scope(scope)
        return run, self.ledger.start_attempt(run, step, self.shop.steps[step].writes.name, 1, target, code="c")

    def publish(
        self, step: str, *scopes: Scope, digest: str = "1-a-b-c", code: str = "", inputs=(), rows: int = 1, details=None
    ):
        declared = self.shop.steps[step]
        table = declared.writes
        run, row = self.attempt(step, scopes[0])
        claim = self.ledger.claim(table.name, [table.scope(scope) for scope in scopes], ttl=TTL, run=run)
        outputs = [
            Output(
                table.name,
                table.scope(scope),
                rows,
                digest,
                "f",
                "1",
                "shop",
                step,
                code or fingerprint(declared),
                tuple(inputs(scope) if callable(inputs) else inputs),
            )
            for scope in scopes
        ]
        self.ledger.record(claim, row, outputs, status="published", details=details)
        self.ledger.finish_run(run, "done")
        return run

    def reads(self, days: int | Iterable[int], text: str = "digest:1-a-b-c") -> list[InputRecord]:
        days = [days] if isinstance(days, int) else days
        starts = [(ONE + timedelta(days=day - 1)).isoformat() for day in days]
        return [
            InputRecord("raw", "lake.a.raw", "window", "1", dict.fromkeys(starts, text)),
            InputRecord("people", "lake.a.people", "latest", "9", {}),
        ]

    def states(self, step: str, **bounds) -> dict[str, str]:
        found = {each.step: each for each in status(self.ledger, self.shop, **bounds)}
        return {partition.name: partition.state for partition in found[step].partitions}

    def reasons(self, step: str, name: str) -> list[str]:
        found = {each.step: each for each in status(self.ledger, self.shop)}
        (partition,) = [partition for partition in found[step].partitions if partition.name == name]
        return [reason.text for reason in partition.reasons]
