"""Small projects for `twice verify`: a module that other processes can import, and a trial on it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twice.loading import load_object
from twice.model.pipelines import Pipeline
from twice.verify.running import Request, prepared
from twice.verify.sandbox import Sandbox

if TYPE_CHECKING:
    import pytest

    from tests.support.project import Lab
    from twice.verify.trial import Trial

DAY = "2026-04-25"
ROWS = """values (1, date'2026-04-24', 10), (2, date'2026-04-24', 20), (3, date'2026-04-25', 30),
    (4, date'2026-04-25', 40), (5, date'2026-04-25', 50), (6, date'2026-04-25', 60)"""
HEAD = """
from pathlib import Path

from pyspark.sql import functions as F

from twice import Day, Merge, Overwrite, Pipeline, Table

pipeline = Pipeline("small", grain=Day)
raw = Table("{space}.raw", partition=Day("d"), key=("id",))
out = Table("{space}.out", partition=Day("d"), key=("id",), write=Overwrite())
"""
# A healthy step.
HEALTHY = """
@pipeline.step(reads={"raw": raw}, writes=out)
def doubled(raw):
    return raw.select("id", "d", (F.col("v") * 2).alias("v"))
"""
FILES = """
[stores.files]
type = "parquet"
path = "parquet"
"""
# "Make room first": the folder of the day is removed before its new rows are there.
REMOVING = """
import shutil

from twice import days

files = Table(
    "files.small.out", partition=Day("d"), key=("id",), write=Overwrite(), schema="id BIGINT, d DATE, v INT"
)


@pipeline.step(reads={"raw": raw, "old": files.window(lookback=days(1))}, writes=files, depends_on_past=True)
def replaced(raw, old, window):
    for file in old.inputFiles():
        table = Path(file.removeprefix("file://")).parents[1]
        shutil.rmtree(table / f"d={window.start.date()}", ignore_errors=True)
    return raw.select("id", "d", (F.col("v") * 2).alias("v"))
"""


@dataclass
class Verified:
    """A project in a module of the test's own."""

    lab: Lab
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.lab.source("raw", "id bigint, d date, v int", ROWS)

    def write(self, text: str = HEALTHY, *, name: str = "small") -> str:
        """Write a module with a pipeline; return its place."""
        module = f"{name}_{self.lab.space}"
        head = HEAD.replace("{space}", f"lake.{self.lab.space}")
        (self.lab.folder / f"{module}.py").write_text(head + textwrap.dedent(text))
        self.monkeypatch.syspath_prepend(self.lab.folder)
        self.monkeypatch.delitem(sys.modules, module, raising=False)
        return f"{module}:pipeline"

    @contextmanager
    def trial(self, place: str, **how: Any) -> Iterator[Trial]:
        """Prepare a trial of a pipeline for the day."""
        pipeline = load_object(self.lab.config, place, "the pipeline")
        assert isinstance(pipeline, Pipeline)
        with Sandbox.open(self.lab.config, self.lab.spark, self.lab.folder / "sandbox") as sandbox:
            window = pipeline.grain.unit(DAY, pipeline.zone)
            yield prepared(self.lab.runtime, sandbox, pipeline, Request(window, place=place, **how))
