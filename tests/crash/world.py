"""A table under fire: its source, its own ledger, and a clean table that shows what is right."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tests.crash import driver, jobs
from twice import Table
from twice.api import run
from twice.engine.stores import Stores

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import SparkSession

    from tests.support.processes import Child, Children
    from tests.support.stores import Place
    from twice.config import Config
    from twice.engine.run import RunResult
    from twice.ledger import Ledger

DAYS = ("2026-04-24", "2026-04-25", "2026-04-26", "2026-04-27", "2026-04-28")
BEFORE, DAY, AFTER, END = DAYS[:4]
Look = tuple[int, Decimal]


@dataclass
class World:
    """One write pattern, its source `raw` on the lake and its target `t` in a place, on the shared Spark."""

    spark: SparkSession
    ledger: Ledger
    config: Config
    space: str
    kind: str
    folder: Path
    place: Place
    children: Children | None = None
    _clean: dict[int, Any] = field(default_factory=dict)
    _number: int = 1

    def name(self, table: str = "t") -> str:
        return f"lake.{self.space}.raw" if table == "raw" else self.place.name(table)

    def make_raw(self) -> None:
        self.spark.sql(f"create namespace if not exists lake.{self.space}")
        self.spark.sql(
            f"create table {self.name('raw')} (id bigint, d date, v decimal(12,2), u timestamp) "
            "using iceberg partitioned by (d)"
        )

    def land(self, number: int, *days: str, rows: int | None = None) -> None:
        """Deliver version `number` of some days: other rows, and (but for insert-only) other values."""
        count = 20 + 7 * number if rows is None else rows
        changed = 0 if self.kind == "insert" else number
        made = self.spark.sql(
            " union all ".join(
                f"select id + {1_000_000 * (1 + DAYS.index(day))} as id, date'{day}' as d, "
                f"cast(id * 1.25 + {changed} as decimal(12,2)) as v, "
                f"timestamp'2026-05-01 00:00:00' + make_interval(0, 0, 0, {changed}) as u from range({count})"
                for day in days
            )
        )
        landed = F.col("d").isin([date.fromisoformat(day) for day in days])
        made.sortWithinPartitions("d").writeTo(self.name("raw")).overwrite(landed)

    def land_next(self) -> int:
        """Deliver another version of the day; where content may come back, two versions take turns."""
        grows = self.kind in ("merge", "insert")
        self._number = self._number + 1 if grows or self._number == 1 else 5 - self._number
        self.land(self._number, DAY)
        return self._number

    @property
    def number(self) -> int:
        """The version of the day that was delivered last by `land_next`, or by the seed."""
        return self._number

    def seed(self) -> None:
        """Fill target and clean table with version 1 of three days.

        Where a day is replaced, the clean table needs no older version: `clean` makes it when it is asked for.
        """
        self.make_raw()
        self.land(1, BEFORE, DAY, AFTER)
        for table in ("t",) if self.kind == "overwrite" else ("t", "clean"):
            self.run(BEFORE, END, table=table)

    def run(self, first: str = DAY, end: str = AFTER, *, table: str = "t", **how: Any) -> RunResult:
        """Run in this process, as a fresh driver that knows nothing of the children's."""
        kind = how.pop("kind", self.kind)
        return run(
            jobs.pipeline(kind, self.name("raw"), self.name(table)),
            from_=first,
            to=end,
            spark=self.spark,
            ledger=self.ledger,
            config=self.config,
            **how,
        )

    def order(self, first: str = DAY, end: str = AFTER, **how: Any) -> driver.RunOrder:
        how = {"kind": self.kind, **how}
        target = self.name(how.pop("table", "t"))
        return driver.RunOrder(
            config=str(self.config.source), told="", raw=self.name("raw"), target=target, first=first, end=end, **how
        )

    def child(self, first: str = DAY, end: str = AFTER, *, barrier: Any = None, **how: Any) -> Child:
        """Start a run in a process of its own."""
        assert self.children is not None
        return self.children.start(driver.child, self.order(first, end, **how), barrier)

    def paused(self, point: str, first: str = DAY, end: str = AFTER) -> Child:
        """Start a run in a process of its own that stops at a point.

        It is started anew where its heartbeat was just writing to the ledger: SQLite lets nobody in as long as such a
        process sleeps, and there is nothing to see of leases then.
        """
        while True:
            child = self.child(first, end, fail_point=f"{point}:pause")
            child.until_stopped()
            if self._ledger_is_free():
                return child
            child.clean_up()
            time.sleep(self.config.lease.total_seconds() + 0.2)

    def _ledger_is_free(self) -> bool:
        connection = sqlite3.connect(self.folder / "ledger.db", timeout=1, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def look(self, day: str = DAY, table: str = "t") -> Look:
        """Read a day as a reader does: how many rows, and their sum."""
        return self.place.look(table, day)

    def delivered(self, day: str = DAY) -> Look:
        """What the source holds of a day."""
        query = f"select count(*), coalesce(sum(v), 0) from {self.name('raw')} where d = date'{day}'"
        row = self.spark.newSession().sql(query).first()
        return row[0], row[1]

    def rows(self, table: str = "t") -> list[tuple[Any, ...]]:
        return self.place.rows(table, "id", "d", "v", "u")

    def files(self, where: str = "true") -> list[str]:
        found = self.spark.sql(f"select file_path from {self.name()}.files where {where}").collect()
        return sorted(row[0] for row in found)

    def versions(self, table: str = "t") -> list[int]:
        """The versions that readers of an Iceberg table saw, oldest first."""
        return self.place.versions(table)  # type: ignore[return-value]

    def commits(self, table: str = "t") -> int:
        """How many versions readers saw."""
        return self.place.commits(table)

    def recorded(self, table: str = "t") -> dict[str, tuple[int, str]]:
        """What the ledger says the table holds."""
        return {str(o.scope): (o.rows, o.digest) for o in self.ledger.outputs.list(self.name(table))}

    def clean(self, number: int) -> tuple[list[str], dict[str, tuple[int, str]]]:
        """Rows and digests after an undisturbed run of the version that is in `raw` now."""
        if number not in self._clean:
            first = self.kind == "overwrite" and not self._clean
            self.run(*((BEFORE, END) if first else ()), table="clean")
            self._clean[number] = (self.rows("clean"), self.recorded("clean"))
        return self._clean[number]

    def tidy(self, table: str = "t") -> bool:
        """No stage, no lease."""
        target = Table(self.name(table))
        assert self.place.leftovers(table) == []
        assert list(Stores(self.config).of(target).staged_tokens(self.spark, target)) == []
        assert self.ledger.leases.list() == []
        return True

    def reader(self, day: str = DAY) -> Reader:
        return Reader(self, day)


class Reader:
    """Somebody who looks at the day all the time; whoever looks sees one whole version."""

    def __init__(self, world: World, day: str) -> None:
        self._world, self._day = world, day
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.seen: list[Look] = []
        self.failed: list[Exception] = []

    def __enter__(self) -> Reader:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        self.seen.append(self._world.look(self._day))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(30)
        self.seen.append(self._world.look(self._day))

    @property
    def story(self) -> list[Look]:
        """What was seen, without repetitions: old then new, and never back."""
        assert not self.failed
        return [look for look, _ in itertools.groupby(self.seen)]

    def bad(self, old: Look, new: Look) -> int:
        """Count the looks that were neither the old version nor, from some time on, the new one."""
        seen = [look for look in self.seen if self._promised(look)]
        turn = seen.index(new) if new in seen else len(seen)
        return sum(look != old for look in seen[:turn]) + sum(look != new for look in seen[turn:]) + len(self.failed)

    def _promised(self, look: Look) -> bool:
        # Between two renames a folder is not there for a moment: whoever reads past twice may see that, and no more.
        return self._world.place.reads_whole or look != (0, Decimal(0))

    def _read(self) -> None:
        while not self._stop.wait(0.1):
            try:
                self.seen.append(self._world.look(self._day))
            except FileNotFoundError as error:
                if self._world.place.reads_whole:
                    self.failed.append(error)
            except Exception as error:
                self.failed.append(error)
                return
