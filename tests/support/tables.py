"""Tables of one store, fed by pipelines of one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twice import Day, Pipeline, Table, Window
from twice.engine.stores import Stores
from twice.model.scopes import Scope
from twice.model.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.project import Lab
    from tests.support.stores import Place
    from twice import Grain
    from twice.engine.attempt.task import StepResult
    from twice.store.protocol import Abilities, StagedRows, Store


def extracting(
    table: Table,
    rows: Callable[[SparkSession, Window], DataFrame],
    *,
    name: str = "p",
    grain: Grain = Day,
    time_zone: str = "UTC",
    **how: Any,
) -> Pipeline:
    """Make a pipeline whose one step `fed` brings the rows of its window."""
    pipeline = Pipeline(name, grain=grain, time_zone=time_zone)

    @pipeline.extract(writes=table, **how)
    def fed(window: Window, spark: SparkSession) -> DataFrame:
        return rows(spark, window)

    return pipeline


@dataclass
class Feed:
    """What the outside world delivers: rows by window; the partition's value is put in as the last column."""

    table: Table
    schema: str
    grain: Grain = Day
    time_zone: str = "UTC"
    shape: Any = None  # what a test does to the rows on their way
    _rows: dict[datetime, list[tuple[object, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pipeline = extracting(self.table, self.of, grain=self.grain, time_zone=self.time_zone)

    def put(self, label: str, *rows: tuple[object, ...]) -> None:
        """Deliver the rows of one window, in place of what it had."""
        start = self.pipeline.grain.parse(label, self.pipeline.zone)
        partition = self.table.partition
        last = (partition.grain.value(start, self.pipeline.zone),) if partition else ()
        self._rows[start] = [(*row, *last) for row in rows]

    def of(self, spark: SparkSession, window: Window) -> DataFrame:
        found = [row for start, rows in self._rows.items() if window.start <= start < window.end for row in rows]
        made = spark.createDataFrame(found, self.schema)
        return self.shape(made) if self.shape else made


@dataclass
class StoreTables:
    """The test's tables in one store of its project."""

    lab: Lab
    place: Place

    def __post_init__(self) -> None:
        self.lab.declare(self.place.toml())

    @property
    def abilities(self) -> Abilities:
        return self.store(self.table("any")).abilities

    def table(self, name: str = "t", **contract: Any) -> Table:
        return Table(self.place.name(name), **contract)

    def feed(self, table: Table, schema: str, **how: Any) -> Feed:
        return Feed(table, schema, **how)

    def run(self, feed: Feed, for_: str | None = None, **how: Any) -> StepResult:
        """Run a feed's step for a window."""
        return self.lab.run(feed.pipeline, for_, **how).steps[0]

    def again(self, feed: Feed, for_: str | None = None, **how: Any) -> StepResult:
        """Run once more: nothing may move."""
        before = self.picture("t")
        step = self.run(feed, for_, **how)
        assert step.status == "unchanged"
        assert self.picture("t") == before
        return step

    @contextmanager
    def untouched(self, name: str = "t", *columns: str) -> Iterator[None]:
        """Require that table, recorded outputs and leases are afterwards as they were, and nothing is left over."""
        before = self.picture(name, *columns), self._recorded(name)
        yield
        assert (self.picture(name, *columns), self._recorded(name)) == before

    def picture(self, name: str, *columns: str) -> object:
        """Return what readers and twice see of a table, where nothing is left over and nothing held."""
        table = Table(self.place.name(name))
        rows = self.place.rows(name, *(columns or ("id", "n")))
        version = self.store(table).version(self.lab.spark, table)
        assert list(self.store(table).staged_tokens(self.lab.spark, table)) == []
        assert self.place.leftovers(name) == []
        assert self.lab.ledger.leases.list() == []
        return rows, version, self.place.versions(name)

    def _recorded(self, name: str) -> object:
        return [(o.scope, o.rows, o.digest, o.files) for o in self.lab.ledger.outputs.list(self.place.name(name))]

    def store(self, table: Table) -> Store:
        return self.lab.runtime.stores.source(table)  # type: ignore[return-value]

    def reopened(self, table: Table) -> Store:
        """Return the store as another process opens it: it remembers nothing."""
        return Stores(self.lab.config).source(table)  # type: ignore[return-value]

    def rows(self, *columns: str, **where: object) -> list[tuple[Any, ...]]:
        return self.place.rows("t", *columns, where=where)

    def opened(
        self, feed: Feed, label: str, token: int, *rows: tuple[object, ...], to: str = "", **dimensions: str
    ) -> tuple[Store, StagedRows, Target]:
        """Open a stage for a partition (or those up to `to`), as the engine does, and write the day's rows into it."""
        feed.put(label, *rows)
        target = self.target(feed, label, to, **dimensions)
        store, spark = self.store(feed.table), self.lab.spark
        made = feed.of(spark, target.scope.window or feed.pipeline.grain.unit(label, feed.pipeline.zone))
        store.check(spark, feed.table)
        store.prepare(spark, feed.table, made.schema)
        staged = store.open(spark, target, token)
        store.stage(spark, staged, made)
        return store, staged, target

    def target(self, feed: Feed, label: str, to: str = "", **dimensions: str) -> Target:
        """Return what a run for that partition (or those up to `to`) owns of the feed's table."""
        zone = feed.pipeline.zone
        window = feed.pipeline.grain.unit(label, zone)
        if to:
            window = Window(window.start, feed.pipeline.grain.parse(to, zone))
        return Target.of(feed.table, Scope.of(window, dimensions), zone)

    def published(self, feed: Feed, label: str, token: int, *rows: tuple[object, ...], **how: Any) -> str:
        """Stage rows and publish them; return the new version."""
        store, staged, target = self.opened(feed, label, token, *rows, **how)
        return store.publish(self.lab.spark, staged, target.partitions, {}, {})
