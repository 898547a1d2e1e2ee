"""Contracts: what each table of a pipeline promises, as Markdown that people and CI can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from twice.model.pipelines import Pipeline
from twice.model.steps import Step
from twice.model.tables import Table

# Yields what is known about a step besides its definition, as rows of a contract.
More = Callable[[Step], Iterable[tuple[str, str]]]


def contracts(pipelines: Sequence[Pipeline], more: More = lambda _: ()) -> str:
    """Return the contracts of all tables; equal definitions give equal text.

    >>> from twice import Day, Pipeline
    >>> print(contracts([Pipeline("shop", grain=Day)]).splitlines()[0])
    # Contracts of shop
    """
    return "\n".join("\n".join(_pipeline(pipeline, more)) + "\n" for pipeline in pipelines)


def _pipeline(pipeline: Pipeline, more: More) -> Iterator[str]:
    yield f"# Contracts of {pipeline.name}"
    yield ""
    if pipeline.description:
        yield pipeline.description
        yield ""
    yield f"One run owns one {pipeline.grain}, in the time zone {pipeline.zone.key}."
    for table in pipeline.tables():
        yield ""
        yield from _table(pipeline, table, more)


def _table(pipeline: Pipeline, table: Table, more: More) -> Iterator[str]:
    producer = pipeline.producer(table)
    yield f"## {table.name}"
    yield ""
    if table.description:
        yield table.description
        yield ""
    yield "| | |"
    yield "|---|---|"
    for name, text in (*_facts(pipeline, table, producer), *(more(producer) if producer is not None else ())):
        yield f"| {name} | {_cell(text)} |"


def _facts(pipeline: Pipeline, table: Table, producer: Step | None) -> Iterator[tuple[str, str]]:
    stream = next((each for each in pipeline.streams.values() if each.writes.id == table.id), None)
    yield "Written by", f"stream {stream.text}" if stream is not None else _writer(producer)
    yield "Owner", table.owner or "no owner is named"
    yield "Partition", str(table.partition) if table.partition else "none: one scope is the whole table"
    yield "Time-bound parameter", _time_bound(pipeline, table)
    if table.dimensions:
        yield "Dimensions", ", ".join(table.dimensions)
    yield "Business key", ", ".join(table.key) or "none"
    if table.write is not None:
        yield "Write pattern", table.write.text
    if table.event_time:
        yield "Event time", table.event_time
    if table.valid:
        yield "Valid", f"from {table.valid[0]} to {table.valid[1]}"
    if producer is not None:
        after = "" if table.on_late == "reopen" else f", then {table.on_late}"
        yield "Lateness", (str(table.lateness) if table.lateness else "none") + after
        yield "Gates", "; ".join(_gates(table)) or "none"
        reads = (f"{name} = {read.reach(table.lateness)}" for name, read in producer.reads.items())
        yield "Reads", "; ".join(reads) or "an external source"
        yield from _outside(pipeline, table)
    if stream is not None:
        yield "Gates", "; ".join(_gates(table)) or "none"
    if table.schema:
        yield "Schema", str(table.schema)
    yield "Personal columns", ", ".join(table.personal) or "none"
    yield "Mutable columns", ", ".join(table.mutable) or "none"
    if producer is not None and producer.nondeterministic:
        yield "Not deterministic, because", producer.nondeterministic
    if producer is not None and producer.depends_on_past:
        yield "Depends on its past", "forward order, one partition at a time"


def _outside(pipeline: Pipeline, table: Table) -> Iterator[tuple[str, str]]:
    """Yield what happens outside when the table changes."""
    if effects := pipeline.effects_after(table):
        yield "Effects", "; ".join(effect.text for effect in effects)
    if table.outbox is not None:
        yield "Outbox", table.outbox.text


def _writer(producer: Step | None) -> str:
    if producer is None:
        return "another writer: this pipeline only reads it"
    kind = {"python": "step", "sql": "SQL step", "extract": "extract"}[producer.kind]
    return f"{kind} {producer.name}"


def _time_bound(pipeline: Pipeline, table: Table) -> str:
    if table.partition is None:
        return "none: the run's window decides what is read, not what is replaced"
    zone = "UTC" if table.partition.grain.sub_day else pipeline.zone.key
    return f"{table.partition.column}, one {table.partition.grain} of {zone}"


def _gates(table: Table) -> Iterator[str]:
    if table.key:
        where = " in each partition" if table.partition_columns else ""
        yield f"{', '.join(table.key)} unique and not null{where}"
    yield from (gate.text for gate in table.gates)


def _cell(text: str) -> str:
    """Keep text inside its cell."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
