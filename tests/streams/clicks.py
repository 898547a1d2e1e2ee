"""Clicks as files of JSON lines: each delivery is a file, and a batch of the stream."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice import Day, InsertOnly, Pipeline, Table, hours
from twice.streams import Process, Windowed, Write
from twice.streams.control import Request, run_stream
from twice.streams.progress import Progress, StreamResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.support.project import Lab
    from tests.support.stores import Place
    from twice.model.streams import Dedup, StreamSource

SCHEMA = "event_id STRING, page STRING, happened_at TIMESTAMP, received_at BIGINT"
LEVELS: dict[str, Dedup] = {
    "process": Process("event_id", order="received_at"),
    "write": Write("event_id", order="received_at"),
    "windowed": Windowed("event_id", hours(24), event_time="happened_at", order="received_at"),
}
_OLD = 1_790_000_000
NOON = datetime(2026, 4, 25, 12, 0, 0)


def click(number: int, page: str = "home", *, minutes: float = 0, received: int = 0) -> dict[str, Any]:
    """One event as its source delivers it; the same number is the same event."""
    happened = NOON + timedelta(minutes=minutes)
    return {
        "event_id": f"e{number}",
        "page": page,
        "happened_at": f"{happened.isoformat()}Z",
        "received_at": received,
    }


def dated(rows: DataFrame) -> DataFrame:
    """Give each click its day."""
    return rows.selectExpr("event_id", "page", "happened_at", "received_at", "to_date(happened_at) AS d")


class Clicks:
    """A folder that clicks are delivered to, and the stream that reads it."""

    def __init__(self, lab: Lab, place: Place) -> None:
        self.lab, self.place = lab, place
        self.folder = lab.folder / "landing" / "web" / "clicks"
        self.folder.mkdir(parents=True)
        lab.declare(f'[stores.landing]\ntype = "files"\npath = "{lab.folder / "landing"}"\nformat = "json"\n')
        lab.declare(f'[streams]\ncheckpoints = "{lab.folder / "checkpoints"}"\n')
        self.source: StreamSource = Table("landing.web.clicks", schema=SCHEMA)
        self.told: list[Progress] = []
        self._files = 0
        _take_callbacks(lab)

    def deliver(self, *events: dict[str, Any]) -> Path:
        """Deliver some events: one file, which is one batch."""
        self._files += 1
        file = self.folder / f"{self._files:03}.json"
        partial = self.folder.parent / f".{file.name}"
        partial.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        # Spark reads files in the order of their times.
        os.utime(partial, (_OLD + self._files, _OLD + self._files))
        return partial.rename(file)

    def table(self, name: str = "clicks", **contract: Any) -> Table:
        """Declare the table that clicks land in."""
        known = {"partition": Day("d"), "key": ["event_id"], "write": InsertOnly(on_conflict="keep")}
        return Table(self.place.name(name), **(known | contract))

    def declare(
        self,
        dedup: Dedup | None = None,
        make: Callable[..., DataFrame] = dated,
        table: Table | None = None,
        name: str = "clicks",
        **how: Any,
    ) -> Pipeline:
        """Declare the stream, in a pipeline of its own."""
        pipeline = Pipeline("web", grain=Day)

        def clicks(rows):
            return make(rows)

        declared = {
            "reads": self.source,
            "writes": table or self.table(),
            "dedup": dedup or Write("event_id"),
            "options": {"maxFilesPerTrigger": "1"} if isinstance(self.source, Table) else {},
            "name": name,
        }
        pipeline.stream(**(declared | how))(clicks)
        return pipeline

    def run(self, pipeline: Pipeline | None = None, **request: Any) -> StreamResult:
        """Read everything that was delivered."""
        found = pipeline or self.declare()
        asked = Request(**({"available_now": True, "report": self.told.append} | request))
        return run_stream(self.lab.runtime, found, found.find_stream(None), self.lab.config.checkpoints, asked)

    def ids(self, table: str = "clicks") -> list[str]:
        """List the events in the table, with every double."""
        return [row[0] for row in self.place.rows(table, "event_id")]

    @property
    def checkpoint(self) -> Path:
        """The folder that Spark keeps for the query."""
        return Path(self.lab.config.checkpoints) / "web.clicks"


def _take_callbacks(lab: Lab) -> None:
    """Let Spark call this process: the child of another test, on the same Spark, may have been called last."""
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = lab.spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    server.resetCallbackClient(server.getCallbackClient().getAddress(), gateway._python_proxy_port)
