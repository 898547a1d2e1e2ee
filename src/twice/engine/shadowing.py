"""A pipeline whose steps write shadows of their tables, and read each other's."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.errors import StoreRefused, UsageError
from twice.model.patterns import InsertOnly, Merge
from twice.store.protocol import Shadowing

if TYPE_CHECKING:
    from twice.engine.run import Workshop
    from twice.engine.stores import Stores
    from twice.model.pipelines import Pipeline
    from twice.model.steps import Step
    from twice.model.tables import Table


def shadows_of(stores: Stores, steps: Sequence[Step], mark: str) -> dict[str, Table]:
    """Return by table's name the shadow that each step writes; what cannot have one is refused."""
    found = {}
    for step in steps:
        table = step.writes
        if isinstance(table.write, Merge | InsertOnly):
            raise UsageError(
                f"step {step.name} merges into {table.name}: a shadow replaces partitions, and would lose what is "
                "merged meanwhile",
                safe="nothing was started",
                to_go_on=f"twice rebuild {table.name} builds it unseen and publishes it at once; choose the other "
                "steps with --step",
            )
        found[table.name] = table.named(_shadowing(stores, table).shadow(table.id, mark))
    return found


def shadowed(pipeline: Pipeline, shadows: Mapping[str, Table], mark: str) -> Pipeline:
    """Return the pipeline on shadows; its runs go by a name of their own, so that no state mixes with the tables'."""
    found = copy.copy(pipeline)
    found.name = f"{pipeline.name}@{mark}"
    found.steps = {
        name: _shadow_step(step, shadows) if step.writes.name in shadows else step
        for name, step in pipeline.steps.items()
    }
    return found


def _shadow_step(step: Step, shadows: Mapping[str, Table]) -> Step:
    reads = {name: replace(read, table=shadows.get(read.table.name, read.table)) for name, read in step.reads.items()}
    return replace(step, reads=reads, writes=shadows[step.writes.name], shadow_of=step)


def begin(workshop: Workshop, steps: Sequence[Step]) -> None:
    """Let every shadow begin with what its table holds now; one that has begun stays as it is."""
    for step in steps:
        assert step.shadow_of is not None  # noqa: S101 - a step of a shadowed pipeline
        table = step.shadow_of.writes
        _shadowing(workshop.stores, table).fork(workshop.spark, table, step.writes)


def remove(workshop: Workshop, table: Table, shadow: Table) -> None:
    """Remove a shadow and everything that only it held."""
    _shadowing(workshop.stores, table).drop_shadow(workshop.spark, table, shadow)


def _shadowing(stores: Stores, table: Table) -> Shadowing:
    store = stores.of(table)
    if not isinstance(store, Shadowing):
        raise StoreRefused(
            f"{table.name}: a {store.abilities.kind} store cannot build a table unseen and swap it in at once",
            safe="nothing was started",
            to_go_on="leave --shadow out, or keep the table in a store of type iceberg, delta or sql",
        )
    return store
