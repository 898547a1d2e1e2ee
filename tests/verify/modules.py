"""Pipelines in modules of their own, as users have them: another process, or a saved case, can import them."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.project import Lab
from twice.verify.checks import chosen
from twice.verify.running import Request, make, prepared
from twice.verify.sandbox import Sandbox
from twice.verify.trial import Outcome, Trial

if TYPE_CHECKING:
    import pytest

DAY = "2026-04-25"
COLUMNS = "order_id bigint, customer string, email string, amount decimal(10,2), d date, ordered_at timestamp"
# Two orders of the day before, and as many of the day as are asked for, of customers c0 to c9.
ORDERS = """select id, concat('c', id % 10), concat('user', id % 10, '@example.com'), cast(id as decimal(10,2)) / 4,
if(id <= 2, date'2026-04-24', date'2026-04-25'), timestamp'2026-04-25 00:00:00' + make_interval(0,0,0,0,0,id)
from range(1, {count} + 1)"""
HEAD = """
import itertools
from pyspark.sql import functions as F
from twice import Day, Overwrite, Pipeline, Table

calls = itertools.count(1)
sales = Pipeline("sales", grain=Day)
orders = Table("{orders}", partition=Day("d"), personal=["email"])
"""
# A step of which one customer's row differs in each run.
FAULTY = """
by_customer = Table("{sales}", partition=Day("d"), key=["d", "customer"], write=Overwrite())

@sales.step(reads={{"orders": orders}}, writes=by_customer)
def per_customer(orders):
    run = F.when(F.col("customer") == "c7", F.lit(next(calls))).otherwise(0)
    return orders.groupBy("d", "customer").agg(F.max("email").alias("email"), F.max("ordered_at").alias("last")) \\
        .withColumn("run", run)
"""
_numbers = itertools.count(1)


@dataclass
class Modules:
    """A project with one module of pipelines, on the orders of two days."""

    lab: Lab
    monkeypatch: pytest.MonkeyPatch
    name: str = field(default_factory=lambda: f"verified_{next(_numbers)}")

    def write(self, body: str, *, count: int = 40) -> Any:
        """Write the module; return its pipeline."""
        if not self.lab.exists("orders"):
            self.lab.source("orders", COLUMNS, ORDERS.format(count=count))
        names = {name: self.lab.name(name) for name in ("orders", "sales", "totals")}
        (self.lab.folder / f"{self.name}.py").write_text((HEAD + body).format(**names))
        self.monkeypatch.syspath_prepend(str(self.lab.folder))
        sys.modules.pop(self.name, None)
        return importlib.import_module(self.name).sales

    def trial(self, sandbox: Sandbox, pipeline: Any, **how: Any) -> Trial:
        """Copy what the pipeline reads."""
        asked = {"command": ("sales", "--for", DAY), "place": f"{self.name}:sales", **how}
        return prepared(self.lab.runtime, sandbox, pipeline, Request(pipeline.grain.unit(DAY, pipeline.zone), **asked))

    def made(self, trial: Trial, name: str = "run-twice") -> Outcome:
        """Make one check, which finds a difference."""
        found = make(chosen([name], quick=False)[0], trial)
        assert all(finding.evidence for finding in found.findings), found
        return found


def loaded(file: Path) -> dict[str, Any]:
    """Run a file as pytest would import it."""
    space: dict[str, Any] = {"__name__": file.stem}
    exec(compile(file.read_text(), str(file), "exec"), space)  # noqa: S102 - what we wrote
    return space
