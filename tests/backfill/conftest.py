"""A small shop on real tables: raw orders that somebody else lands, facts, and a summary of each day."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest
from pyspark.sql import functions as F

from tests.backfill.children import BackfillOrder, child
from tests.support.project import Lab
from twice import Day, Overwrite, Pipeline, Table, Window
from twice.backfills.api import Project
from twice.backfills.request import Request
from twice.model.grains import zone_of

FIRST = date(2026, 1, 1)


def day(number: int) -> str:
    """Name the n-th day of January."""
    return (FIRST + timedelta(days=number - 1)).isoformat()


def january(first: int, end: int) -> Window:
    """Return the days from `first` up to, and not including, `end`."""
    zone = zone_of("UTC")
    return Window(Day.parse(day(first), zone), Day.parse(day(end), zone))


def among(numbers: Sequence[int]):
    return F.col("d").isin([date.fromisoformat(day(number)) for number in numbers])


@dataclass
class Shop:
    """The pipeline, its tables and what is heard of its backfills."""

    lab: Lab
    prefix: str = ""
    notes: list = field(default_factory=list)
    heard: Callable[[object], None] | None = None

    def __post_init__(self) -> None:
        self.runtime = self.lab.runtime
        self.raw = Table(self.lab.name("raw"), partition=Day("d"))
        self.facts = Table(self.lab.name(f"{self.prefix}facts"), partition=Day("d"), key=["id"], write=Overwrite())
        self.sums = Table(
            self.lab.name(f"{self.prefix}sums"), partition=Day("d"), key=["d", "customer"], write=Overwrite()
        )
        self.pipeline = self.build()

    def land(self, days: int, rows: int = 4) -> None:
        """Let another system land raw orders for the first days of January."""
        self.lab.source("raw", "id bigint, d date, customer bigint, n bigint")
        self.more(1, days + 1, rows)

    def more(self, first: int, end: int, rows: int = 4) -> None:
        ids = self.lab.spark.range(rows * (first - 1), rows * (end - 1), 1, 1)
        start = F.to_date(F.lit(FIRST.isoformat()))
        found = ids.select(
            F.col("id"),
            F.date_add(start, (F.col("id") / rows).cast("int")).alias("d"),
            (F.col("id") % 3).alias("customer"),
            (F.col("id") * 7).alias("n"),
        )
        found.writeTo(self.raw.name).append()

    def build(
        self,
        *,
        bad: Sequence[int] = (),
        fixed: Sequence[int] = (),
        slow: float = 0.0,
        gates: Sequence = (),
        turn: Callable[[], object] | None = None,
    ) -> Pipeline:
        """Define the pipeline; `bad` days make the facts fail, `fixed` ones get other numbers.

        Each call of the facts takes `slow` seconds, and waits for its `turn`.
        """
        pipeline = Pipeline("shop", grain=Day)
        table = Table(self.facts.name, partition=Day("d"), key=["id"], write=Overwrite(), gates=gates)

        @pipeline.step(reads={"raw": self.raw}, writes=table, version=f"{bad}{fixed}")
        def facts(raw):
            if slow:
                time.sleep(slow)
            if turn:
                turn()
            n = F.when(among(fixed), F.col("n") * 2).otherwise(F.col("n")) if fixed else F.col("n")
            if bad:
                n = F.when(among(bad), F.raise_error(F.lit("this day is rotten")).cast("bigint")).otherwise(n)
            return raw.select("id", "d", "customer", n.alias("n"))

        @pipeline.step(reads={"facts": self.facts}, writes=self.sums)
        def sums(facts):
            return facts.groupBy("d", "customer").agg(F.sum("n").alias("n"))

        return pipeline

    def project(self, pipeline: Pipeline | None = None) -> Project:
        return Project(self.runtime, pipeline or self.pipeline, self.hear, "twice backfill shop")

    def hear(self, note) -> None:
        self.notes.append(note)
        if self.heard:
            self.heard(note)

    def request(self, first: int = 1, end: int = 11, **how) -> Request:
        return Request("shop", january(first, end), **how)

    def backfill(self, first: int = 1, end: int = 11, pipeline: Pipeline | None = None, **how):
        return self.project(pipeline).start(self.request(first, end, **how))

    def digests(self) -> dict[tuple[str, str], tuple[int, str]]:
        """What both tables hold, by partition."""
        found = {}
        for name, table in (("facts", self.facts), ("sums", self.sums)):
            for output in self.lab.ledger.outputs.list(table.name):
                found[name, str(output.scope)] = (output.rows, output.digest)
        return found

    def told(self, kind: str) -> list:
        return [note for note in self.notes if note.kind == kind]

    def loop(self, first: int, end: int) -> None:
        """Do it by hand: one run a day."""
        for number in range(first, end):
            self.lab.run(self.pipeline, day(number))


@pytest.fixture
def shop(lab):
    return Shop(lab)


@pytest.fixture
def start_child(children):
    """Start a process that works on a backfill of the test's project."""

    def start(lab, **how):
        return children.start(child, BackfillOrder(str(lab.config.source), lab.space, **how))

    return start
