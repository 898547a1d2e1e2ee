"""Where unsteady values count, what the world outside notices, and what is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from twice.audit.expressions import Origin, OriginKind
from twice.audit.keeping import kept
from twice.audit.model.writes import Write
from twice.audit.places import Place
from twice.audit.queries import Query

Context = Literal[
    "filter",  # WHERE, HAVING, .where, .filter: decides which rows
    "join",
    "partition",  # a value of a partition column, PARTITION (dt = …)
    "key",  # part of a key column, of a merge condition, or hashed into one
    "stored",  # the value of a column that is written: Use.column
    "audit",  # the value of a column that says when a row was loaded: loaded_at, updated_at as load time, etl_…
    "target",  # part of the written table's name or output path
    "input",  # part of a path, URL or query string that is read
    "request",  # sent to a service
    "predicate",  # DELETE … WHERE, UPDATE … WHERE, replaceWhere
    "order",
    "returned",  # leaves a function that no code in the file calls
    "argument",  # handed to a function that is not known
    "state",  # written as orchestrator state
    "condition",  # decides a Python branch or loop
    "log", "mail", "metric", "timer", "retention", "credential", "temp", "sleep", "file_name",
    "start_date",  # of a DAG
    "schedule",
    "unused",
]  # fmt: skip

DECIDING: frozenset[str] = frozenset({"filter", "join", "partition", "key", "stored", "target", "input", "predicate"})
HARMLESS: frozenset[str] = frozenset(
    {"log", "mail", "metric", "timer", "retention", "credential", "temp", "sleep", "file_name", "unused"}
)


@dataclass(frozen=True)
class Use:
    """A value whose origin matters (a clock, a random number …) and the place where it counts.

    `place` is where the clock is asked; `used_at` where it counts. One clock call that reaches three filters gives
    three uses with the same `place`.
    """

    origin: Origin
    context: Context
    used_at: Place
    column: str = ""  # the column it is stored in or compared with
    write: Write | None = field(default=None, compare=False)
    query: Query | None = field(default=None, compare=False)
    fallback: bool = False  # only when the parameter is missing
    detail: str = ""

    @property
    def place(self) -> Place:
        """Where it is asked."""
        return self.origin.place

    @property
    def kind(self) -> OriginKind:
        """What kind of origin it is."""
        return self.origin.kind

    @property
    def name(self) -> str:
        """The call as written."""
        return self.origin.name


EffectKind = Literal["http", "mail", "chat", "queue", "payment", "file"]


@dataclass(frozen=True)
class Effect:
    """Something that the world outside notices: a request, a mail, a message, a payment."""

    kind: EffectKind
    name: str  # requests.post, producer.send, EmailOperator
    place: Place
    method: str = ""  # POST, PUT, PATCH, DELETE
    url: str = ""  # as far as it is known
    arguments: tuple[str, ...] = ()  # names of keyword arguments, and of the headers that are visible
    has_key: bool = False  # an idempotency key, a message key, a transaction id, a deduplication id
    guarded_by: str = ""  # the condition that asks whether it was done before
    # "token": asks for credentials; "query": only reads; "alert": reports a failure; "status": progress or success
    purpose: Literal["", "token", "query", "alert", "status"] = ""
    inside: str = ""  # foreachPartition, foreach, foreachBatch, udf, map, mapPartitions
    function: str = ""
    task: str = ""
    loop: bool = False
    order: int = 0


@dataclass(eq=False)
class Call:
    """A Python call, with its dotted name resolved through imports: `requests.post`, `F.collect_list`.

    `name` is the full name (`pyspark.sql.functions.collect_list`), or `.method` for a method of something unknown.
    """

    name: str
    place: Place
    keywords: tuple[str, ...] = ()
    function: str = ""
    order: int = 0
    # Few calls are looked at so closely that they must be written out.
    write_receiver: Callable[[], str] = field(default=str, repr=False)
    write_arguments: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False)

    @kept
    def receiver(self) -> str:
        """What a method is called on, as written."""
        return self.write_receiver()

    @kept
    def texts(self) -> tuple[str, ...]:
        """The arguments as written, keyword ones as `key=value`."""
        return self.write_arguments()

    @kept
    def last(self) -> str:
        """The name after the last dot."""
        return self.name.rsplit(".", 1)[-1]
