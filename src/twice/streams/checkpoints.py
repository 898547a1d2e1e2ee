"""Checkpoints of Structured Streaming: which query they are of, and the offsets of its batches.

A batch is read again, exactly, by a query on a copy of the checkpoint whose last batch has offsets and no commit: Spark
asks the source for these very offsets, whichever source it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.errors import ConfigError, StreamRefused
from twice.store.hadoop import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION = "v1"


@dataclass(frozen=True)
class Offsets:
    """What Spark writes before a batch: its watermark, and where it ends in each source."""

    text: str
    watermark: int
    sources: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Offsets:
        """Read the text of an offsets file."""
        version, about, *sources = text.strip().splitlines()
        if version != _VERSION or not sources:
            raise ValueError(f"offsets of version {version}")
        return cls(text, int(json.loads(about)["batchWatermarkMs"]), tuple(sources))


class Checkpoint:
    """A folder that Spark keeps for one query."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._session = session
        self._files = HadoopFiles(session, self.path)

    @property
    def query(self) -> str | None:
        """The id of the query; None if the folder is new."""
        text = self._files.read(f"{self.path}/metadata")
        if text is None:
            if self.last is not None:
                raise self._corrupt("it has offsets and no id of a query")
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            raise self._corrupt("its file metadata cannot be read") from None

    @property
    def last(self) -> int | None:
        """The number of the newest batch that has offsets."""
        numbers = [int(entry.name) for entry in self._files.entries(f"{self.path}/offsets") if entry.name.isdigit()]
        return max(numbers, default=None)

    @property
    def has_state(self) -> bool:
        """Return whether the query remembers keys."""
        return self._files.exists(f"{self.path}/state")

    def offsets(self, batch: int) -> Offsets:
        """Return what a batch reads."""
        text = self._files.read(f"{self.path}/offsets/{batch}")
        try:
            return Offsets.read(text or "")
        except (ValueError, KeyError, TypeError):
            raise self._corrupt(f"the offsets of batch {batch} cannot be read") from None

    def check(self) -> None:
        """Refuse a checkpoint whose newest offsets cannot be read."""
        if self.query is not None and (last := self.last) is not None:
            self.offsets(last)

    def begin(self, query: str, before: tuple[int, str] | None, next_: tuple[int, str] | None = None) -> None:
        """Write a checkpoint that continues after a batch, or that still has the next one to do."""
        for folder in ("offsets", "commits"):
            self._files.make(f"{self.path}/{folder}")
        self._files.write(f"{self.path}/metadata", json.dumps({"id": query}))
        if before is not None:
            number, text = before
            # Spark looks at the offsets of the batch before its newest one, too.
            for each in range(number if next_ is not None else max(number - 1, 0), number + 1):
                self._files.write(f"{self.path}/offsets/{each}", text)
                self._files.write(f"{self.path}/commits/{each}", f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')
        if next_ is not None:
            self._files.write(f"{self.path}/offsets/{next_[0]}", next_[1])

    def copy_sources(self, other: Checkpoint) -> None:
        """Take over what sources themselves keep, such as which files belong to which offset."""
        if not self._files.exists(f"{other.path}/sources"):
            return
        self._files.copy(f"{other.path}/sources", f"{self.path}/sources")

    def missing_files(self, offsets: Offsets, before: Offsets | None) -> list[str]:
        """Return the files of a batch that no longer exist: a source of files would leave them out silently."""
        first = int(json.loads(before.sources[0])["logOffset"]) + 1 if before is not None else 0
        last = int(json.loads(offsets.sources[0])["logOffset"])
        folder, found = f"{self.path}/sources/0", dict[str, None]()
        for entry in self._files.entries(folder):
            if not entry.name.removesuffix(".compact").isdigit():
                continue
            for line in (self._files.read(f"{folder}/{entry.name}") or "").splitlines()[1:]:
                file = json.loads(line)
                if first <= int(file["batchId"]) <= last:
                    found[str(file["path"])] = None
        return [path for path in found if not self._files.exists(path)]

    def set_aside(self, name: str) -> str:
        """Move the folder away, if it exists; return its new place."""
        aside = f"{self.path}.{name}"
        if self._files.exists(self.path):
            self._files.move(self.path, aside)
        return aside

    def remove(self) -> None:
        """Remove the folder."""
        if self._files.exists(self.path):
            self._files.remove(self.path)

    def _corrupt(self, what: str) -> StreamRefused:
        return StreamRefused(
            f"the checkpoint {self.path} is damaged: {what}",
            unchanged="nothing was read, the table is as it was",
            next_step="restore the folder from a backup, or continue from what the table holds: --resume-from-table",
        )


def folder_of(base: str, stream: str, master: str) -> str:
    """Return the checkpoint folder of a stream; one machine's disk is refused for a Spark that runs on many."""
    if "://" not in base and not master.startswith("local"):
        raise ConfigError(
            f"checkpoints are kept in {base}, on one machine, but Spark runs on {master}",
            unchanged="nothing was run",
            next_step='set [streams] checkpoints = "s3a://…" or another place that all machines see',
        )
    return f"{base.rstrip('/')}/{stream}"
