"""A small world for checks: orders of two days, and pipelines that are healthy or have one fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.project import Lab
from twice import Day, Overwrite, Pipeline, Table
from twice.verify.checks import chosen
from twice.verify.running import Request, make, prepared
from twice.verify.sandbox import Sandbox
from twice.verify.trial import Outcome, Trial

ORDERS = """VALUES
(1, 'a', 10.0, date'2026-04-24', timestamp'2026-04-24 10:00:00'), (2, 'b', 20.5, date'2026-04-24', timestamp'2026-04-24 11:00:00'),
(3, 'a', 30.0, date'2026-04-25', timestamp'2026-04-25 10:00:00'), (4, 'a', 0.1, date'2026-04-25', timestamp'2026-04-25 11:00:00'),
(5, 'b', 0.2, date'2026-04-25', timestamp'2026-04-25 12:00:00'), (6, 'c', 0.3, date'2026-04-25', timestamp'2026-04-25 13:00:00'),
(7, 'c', 5.0, date'2026-04-26', timestamp'2026-04-25 23:00:00')"""  # noqa: E501
COLUMNS = "order_id bigint, customer string, amount double, d date, ordered_at timestamp"
DAY = "2026-04-25"


@dataclass
class World:
    """Orders as they were delivered, and a way to verify what is made of them."""

    lab: Lab
    sandbox: Sandbox

    def orders(self, **contract: Any) -> Table:
        """The source of every pipeline here; it is created once."""
        if not self.lab.exists("orders"):
            self.lab.source("orders", COLUMNS, ORDERS)
        return Table(self.lab.name("orders"), partition=Day("d"), **contract)

    def table(self, name: str = "sales", **contract: Any) -> Table:
        """A table that a step writes."""
        found = {"partition": Day("d"), "key": ["d", "customer"], "write": Overwrite(), **contract}
        return Table(self.lab.name(name), **found)

    def pipeline(self, function: Callable[..., Any], writes: Table, **how: Any) -> Pipeline:
        """A pipeline of one step that reads the orders."""
        found = Pipeline("sales", grain=Day)
        found.step(reads={"orders": how.pop("reads", self.orders())}, writes=writes, **how)(function)
        return found

    def trial(self, pipeline: Pipeline, **how: Any) -> Trial:
        """Copy what the pipeline reads."""
        day = how.pop("day", DAY)
        asked = Request(pipeline.grain.unit(day, pipeline.zone), **{"command": (pipeline.name, "--for", day), **how})
        return prepared(self.lab.runtime, self.sandbox, pipeline, asked)

    def check(self, name: str, pipeline: Pipeline, **how: Any) -> Outcome:
        """Make one check."""
        return make(chosen([name], quick=False)[0], self.trial(pipeline, **how))


@pytest.fixture
def world(lab: Lab) -> Iterator[World]:
    with Sandbox.open(lab.config, lab.spark) as sandbox:
        yield World(lab, sandbox)
