"""The shop in a folder of its own, its inputs copied once, and mutants of it made and verified."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.catalogue import CONTRACT, REFUSED, Mutant
from twice import config as configuration
from twice.api import runtime
from twice.engine.attempt.determinism import code_facts
from twice.engine.plan import plan
from twice.errors import TwiceError
from twice.loading import find_pipeline
from twice.model.contracts import contracts
from twice.verify.checks import chosen
from twice.verify.few_rows import settings_for
from twice.verify.running import Request, make, on_copies, prepared
from twice.verify.sandbox import Sandbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import Runtime
    from twice.model.pipelines import Pipeline
    from twice.model.windows import Window
    from twice.verify.preparing import Inputs
    from twice.verify.trial import Trial

HERE = Path(__file__).parent
LIBRARY = HERE / "library"
PIPELINE = HERE.parent.parent / "examples" / "shop" / "pipeline.py"
DAY = "2026-04-25"
# Read when the shop is imported.
SIZES = {"TWICE_SHOP_ORDERS": "120", "TWICE_SHOP_CUSTOMERS": "30", "TWICE_SHOP_OPENING": "2026-04-24"}
TOML = """
[pipelines]
shop = "examples.shop.pipeline:shop"
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[stores.serving]
type = "sql"
url = "sqlite:///serving.db"
[stores.warehouse]
type = "delta"
path = "delta"
[stores.files]
type = "parquet"
path = "parquet"
[stores.server]
type = "sql"
url = "postgresql://127.0.0.1/none"
[verify.stores.server]
url = "{postgres}"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = "2"
"spark.default.parallelism" = "2"
"spark.sql.codegen.wholeStage" = "false"
"spark.ui.enabled" = "false"
"""


@dataclass(frozen=True)
class Caught:
    """Who found a mutant, and what was said about it."""

    mutant: Mutant
    by: str
    said: str
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Return whether it was the one who must, and for the reason that the mutant is about."""
        return self.by == self.mutant.caught and self.said.startswith(self.mutant.error)


@dataclass
class Shop:
    """One Spark and one sandbox for all mutants."""

    production: Runtime
    sandbox: Sandbox
    root: Path
    count: int = 0
    module: str = ""
    _inputs: Inputs | None = field(default=None, repr=False)

    @classmethod
    @contextmanager
    def open(
        cls, root: Path, postgres: str = "postgresql://127.0.0.1/sandbox", spark: SparkSession | None = None
    ) -> Iterator[Shop]:
        """Start Spark, whose Python workers find the company's library; or use one that runs, without it.

        `postgres` is an empty database.
        """
        os.environ.update(SIZES)
        # Where packages are installed, nobody reads the code of a step.
        library = shutil.copytree(LIBRARY, root / "lib" / "python3" / "site-packages")
        paths = [str(library), str(root), str(PIPELINE.parents[2])]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
        (root / "twice.toml").write_text(TOML.format(postgres=postgres))
        config = configuration.load(root / "twice.toml")
        with (
            runtime(config, spark=spark) as production,
            Sandbox.open(config, production.spark) as sandbox,
            sandbox.settings(settings_for(int(SIZES["TWICE_SHOP_ORDERS"]))),
        ):
            yield cls(production, sandbox, root)

    def healthy(self) -> Pipeline:
        """The shop as it is."""
        return find_pipeline(self.sandbox.config, "shop")

    def mutated(self, mutant: Mutant) -> Pipeline:
        """Import the shop with one edit."""
        self.count += 1
        self.module = f"shop_mutant_{os.getpid()}_{self.count}"
        (self.root / f"{self.module}.py").write_text(mutant.edit(PIPELINE.read_text()))
        importlib.invalidate_caches()
        return importlib.import_module(self.module).shop

    def unit(self, pipeline: Pipeline) -> Window:
        """The day that is verified."""
        return pipeline.grain.unit(DAY, pipeline.zone)

    def trial(self, pipeline: Pipeline, steps: tuple[str, ...] = (), place: str = "") -> Trial:
        """Return a trial of some steps; the inputs of all trials are the same copies."""
        asked = Request(self.unit(pipeline), steps=steps, command=("shop", "--for", DAY), place=place)
        if self._inputs is None:
            self._inputs = prepared(self.production, self.sandbox, self.healthy(), replace(asked, steps=())).inputs
        return on_copies(self.sandbox, pipeline, asked, self._inputs)

    def catch(self, mutant: Mutant) -> Caught:
        """Say who finds a mutant."""
        started = time.monotonic()

        def caught(by: str, said: str) -> Caught:
            return Caught(mutant, by, said.splitlines()[0], time.monotonic() - started)

        try:
            pipeline = self.mutated(mutant)
            plan(pipeline, self.unit(pipeline), dimensions=mutant.dimensions, steps=mutant.steps)
            trial = self.trial(pipeline, mutant.steps, f"{self.module}:shop")
            _ = trial.expected
        except TwiceError as error:
            return caught(REFUSED, f"{type(error).__name__}: {error.message}")
        if mutant.caught == CONTRACT:
            agreed, found = (contracts([each], code_facts) for each in (self.healthy(), pipeline))
            return caught(CONTRACT if agreed != found else "nobody", "the contract of the table is another one")
        if mutant.caught == REFUSED:
            return caught("nobody", "the step was run")
        outcome = make(chosen([mutant.caught], quick=False)[0], trial)
        said = outcome.findings[0].what if outcome.findings else f"{outcome.status}: {outcome.summary}"
        # A refusal within a check may have any reason: it counts only for a mutant that names it.
        stray = said.startswith("a run of this check was refused") and not mutant.error
        by = outcome.check if outcome.status == "failed" and not stray else "nobody"
        return caught(by, said)
