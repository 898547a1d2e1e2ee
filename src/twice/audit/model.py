"""The statement model: what one file does, in words that are the same for SQL, PySpark, dbt and orchestrators.

A front end (`twice.audit.languages`) turns a file into a `Job`; a rule looks at nothing else.

    for write in job.writes:                 # INSERT INTO t …  and  df.write.mode("append").saveAsTable("t")
        if write.mode is Mode.APPEND and job.cleared_by(write) is None and not write.target.is_scratch:
            yield job.finding(…)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeVar

from twice.audit.expressions import Expr, Origin, OriginKind
from twice.audit.keeping import kept
from twice.audit.places import NOWHERE, Place
from twice.audit.queries import Query
from twice.audit.vocabulary import is_audit_column, is_scratch_name

T = TypeVar("T")


class Mode(Enum):
    """What a statement does to its target."""

    APPEND = "append"  # INSERT INTO, mode("append"), writeTo().append(), COPY INTO, to_sql(if_exists="append")
    INSERT_NEW = "insert new"  # ON CONFLICT DO NOTHING, INSERT IGNORE, MERGE with only NOT MATCHED INSERT
    UPSERT = "upsert"  # ON CONFLICT DO UPDATE, REPLACE INTO, stores that upsert by id
    MERGE = "merge"  # MERGE INTO, DeltaTable.merge; see Write.merge
    OVERWRITE = "overwrite"  # the whole table: mode("overwrite"), INSERT OVERWRITE t, CREATE OR REPLACE TABLE AS
    OVERWRITE_PARTITIONS = "overwrite partitions"  # dynamic mode, overwritePartitions(), INSERT OVERWRITE PARTITION
    REPLACE_WHERE = "replace where"  # replaceWhere, overwrite(condition): Write.predicate
    UPDATE = "update"
    DELETE = "delete"  # with Write.predicate, or all rows without one
    TRUNCATE = "truncate"
    DROP = "drop"
    DROP_PARTITION = "drop partition"
    CREATE = "create"  # CREATE TABLE t (…) or CREATE TABLE t AS SELECT (then Write.query is set)
    ALTER = "alter"


@dataclass(frozen=True)
class Target:
    """What is written: `name` as written and resolved, lower case, without quotes ("" if it is not known).

    Unknown parts of a name stand in braces: `{catalog}.core.orders`. `expr` carries the origins of a name or path
    that is computed (a clock in an output path).
    """

    name: str = ""
    kind: Literal["table", "path", "view", "topic", "variable", "unknown"] = "table"
    temporary: bool = False  # TEMP tables, #tables, table variables, temp views
    expr: Expr | None = field(default=None, compare=False)

    @property
    def last(self) -> str:
        """The name without catalog and schema."""
        return self.name.rsplit("/", 1)[-1] if self.kind == "path" else self.name.rsplit(".", 1)[-1]

    @property
    def is_scratch(self) -> bool:
        """Whether it is a temp table, a table variable, staging that the job itself makes, or an audit log."""
        return self.temporary or is_scratch_name(self.last)

    def same(self, other: Target) -> bool:
        """Tell whether both are the same table: equal, or equal but for a missing catalog or schema."""
        return same_table(self.name, other.name)


def same_table(one: str, other: str) -> bool:
    """Tell whether two names mean the same table.

    >>> same_table("core.orders", "lake.core.orders"), same_table("orders", "old.orders"), same_table("a", "b")
    (True, True, False)
    """
    if one == other:
        return bool(one)
    if "{" in one and "{" in other:  # {cfg.table('orders')} in a text is {cfg.table(orders)} in a call
        one, other = (name.replace("'", "").replace('"', "") for name in (one, other))
        if one == other:
            return True
    if not one or not other or one[-1] != other[-1]:
        return False
    if "/" in one or "/" in other:
        return one.rstrip("/") == other.rstrip("/")
    left, right = one.split("."), other.split(".")
    depth = min(len(left), len(right))
    return left[-depth:] == right[-depth:]


@dataclass(frozen=True)
class When:
    """One WHEN of a MERGE, or the action of ON CONFLICT."""

    matched: bool
    action: Literal["insert", "update", "delete", "nothing"]
    condition: Expr | None = None
    assignments: tuple[tuple[str, Expr], ...] = ()  # (column, value); empty with `all_columns`
    all_columns: bool = False  # UPDATE SET *, updateAll(), INSERT *
    by_source: bool = False  # NOT MATCHED BY SOURCE
    place: Place = NOWHERE


@dataclass(frozen=True)
class Merge:
    """MERGE or ON CONFLICT: how source rows find theirs, and what happens then."""

    on: Expr | None
    whens: tuple[When, ...]
    target_alias: str = ""
    source_alias: str = ""
    conflict: bool = False  # ON CONFLICT / ON DUPLICATE KEY rather than MERGE


@dataclass(eq=False)
class Write:
    """One statement that changes a table, path or topic."""

    target: Target
    mode: Mode
    place: Place
    query: Query | None = None  # what is written; for MERGE and UPDATE … FROM: the source
    predicate: Expr | None = None  # DELETE/UPDATE … WHERE, replaceWhere
    key: tuple[str, ...] = ()  # merge or conflict columns, dbt unique_key
    columns: tuple[str, ...] = ()  # INSERT INTO t (a, b)
    assignments: tuple[tuple[str, Expr], ...] = ()  # UPDATE SET
    alias: str = ""  # UPDATE orders AS o, DELETE FROM orders o: what the statement calls its target
    merge: Merge | None = None
    # partition columns with their static value (None if dynamic): PARTITION (dt='…', hr), partitionBy("dt")
    partition: tuple[tuple[str, Expr | None], ...] = ()
    dynamic: bool = False  # spark.sql.sources.partitionOverwriteMode is dynamic for this write
    # sql, dataframe, jdbc, pandas, glue, operator, copy, delta, dbt, file, dbapi, mongo, …
    via: str = "sql"
    api: str = ""  # the call or operator as written: saveAsTable, insertInto, S3ToRedshiftOperator, to_sql
    format: str = ""  # parquet, delta, iceberg, jdbc, org.elasticsearch…
    explicit_mode: bool = True  # False when append is only the default of the API or of an argument
    if_not_exists: bool = False  # CREATE … IF NOT EXISTS, DROP … IF EXISTS, a tableExists() guard around it
    or_replace: bool = False
    options: dict[str, str] = field(default_factory=dict)
    transaction: int | None = None  # statements with the same number commit together
    autocommit: bool = False  # what is written is visible at once (no transaction around it, as far as one can see)
    commit_between: bool = False  # set on a write when a COMMIT stands between it and the statement before
    task: str = ""  # the orchestrator's task that runs it
    function: str = ""  # the Python function it stands in
    loop: bool = False  # inside a Python loop
    stream: bool = False
    stream_batch_id: str = ""  # foreachBatch: the name of the batch id argument
    batch_id_used: bool = False
    checkpointed: bool = False
    conditional: bool = False  # under an if that asks whether it was done before (guard)
    guarded_by: str = ""
    incremental: bool = False  # dbt incremental model
    retries: int | None = None  # of the task it runs in
    order: int = 0  # position among all statements of the file, as they run
    origin: Literal["statement", "pre-hook", "post-hook", "model", "task"] = "statement"
    literal_rows: bool = False  # INSERT … VALUES
    unique_constraint: bool = False  # the file itself declares a key or unique constraint on the target

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it reads."""
        return self.query.tables() if self.query else ()

    def adds_rows(self) -> bool:
        """Tell whether a second run adds its rows again."""
        return self.mode is Mode.APPEND

    def filters(self) -> Iterator[Expr]:
        """Yield all filters of its query, at any depth, and its own predicate."""
        if self.predicate is not None:
            yield self.predicate
        if self.query is not None:
            for query in self.query.walk():
                yield from query.filters


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
    "returned",  # leaves a function that nobody in the file calls
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
    # "token": asks for credentials; "query": only reads; "alert": tells of a failure; "status": progress or success
    purpose: Literal["", "token", "query", "alert", "status"] = ""
    inside: str = ""  # foreachPartition, foreach, foreachBatch, udf, map, mapPartitions
    function: str = ""
    task: str = ""
    loop: bool = False
    order: int = 0


@dataclass(frozen=True)
class Task:
    """A task of an orchestrator."""

    name: str
    operator: str  # PythonOperator, @task, SparkSubmitOperator, @asset, @flow …
    place: Place
    function: str = ""
    upstream: frozenset[str] = frozenset()
    retries: int | None = None
    retries_place: Place | None = None
    templated: bool = False  # uses {{ ds }} or another logical date


@dataclass
class Orchestration:
    """What an orchestrator is told: Airflow, Dagster, Prefect or none."""

    system: Literal["", "airflow", "dagster", "prefect"] = ""
    schedule: str = ""  # as written: "@daily", "0 * * * *"
    every: int | None = None  # seconds, as far as it is clear
    schedule_place: Place | None = None
    retries: int | None = None  # of the DAG or flow (default_args)
    retries_place: Place | None = None
    catchup: bool | None = None
    catchup_place: Place | None = None
    start_date: Expr | None = None
    start_date_place: Place | None = None
    tasks: list[Task] = field(default_factory=list)
    uses_logical_date: bool = False  # ds, execution_date, data_interval_start, {{ ds }}, partition_key …


@dataclass(frozen=True)
class Parameter:
    """A date or value that the job is given from outside, so that a rerun can ask for the same one."""

    name: str
    kind: Literal["argument", "logical date", "dbt var", "widget", "environment", "function", "sql"]
    place: Place
    is_date: bool = False
    expression: str = ""  # how to write it in this file


@dataclass
class DbtModel:
    """A dbt model's configuration."""

    materialized: str = "view"
    strategy: str = ""  # incremental_strategy
    unique_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    partition_grain: str = ""
    place: Place = NOWHERE
    has_incremental_block: bool = False
    unique_key_text: str = ""
    options: dict[str, str] = field(default_factory=dict)
    pre_hooks: tuple[str, ...] = ()
    post_hooks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Why a file, or a statement in it, could not be read."""

    message: str
    place: Place
    whole_file: bool = False


@dataclass
class Job:
    """One file, as the rules see it."""

    path: str
    language: Literal["python", "sql", "dbt", "notebook"]
    text: str
    dialect: str = ""
    is_test: bool = False  # test code is not judged
    writes: list[Write] = field(default_factory=list)  # in the order in which they run
    queries: list[Query] = field(default_factory=list)  # every outermost query, also those that are written
    uses: list[Use] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    orchestration: Orchestration = field(default_factory=Orchestration)
    dbt: DbtModel | None = None
    problems: list[Problem] = field(default_factory=list)
    imports: frozenset[str] = frozenset()  # modules that a Python file imports
    calls: list[Call] = field(default_factory=list)  # every Python call, resolved, for what the model does not hold
    sets_iterated: list[Expr] = field(default_factory=list)  # `for x in set(…)` whose items reach output
    settings: dict[str, str] = field(default_factory=dict)  # spark.conf.set and SET statements, lower case
    finished: bool = False  # nothing is added any more
    checks_uniqueness: bool = False  # the file checks keys: a constraint, a count of duplicates, an assert
    _answers: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @kept
    def lines(self) -> list[str]:
        """The source lines."""
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """Return a source line, counted from 1."""
        lines = self.lines
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def used(self, kind: OriginKind, *contexts: str) -> Iterator[Use]:
        """Yield the uses of a kind, in some contexts or in all."""
        for use in self.uses:
            if use.kind == kind and (not contexts or use.context in contexts):
                yield use

    def remembered(self, ask: Callable[[Job], T]) -> T:
        """Return what a question about the whole file gives; once nothing is added any more it is asked only once."""
        if not self.finished:
            return ask(self)
        if ask not in self._answers:
            self._answers[ask] = ask(self)
        answer: T = self._answers[ask]
        return answer

    def earlier(self, write: Write) -> Iterator[Write]:
        """Yield the statements on the same target that run before, nearest first."""
        for other in reversed(self._on_same_target(write)):
            if other.order < write.order and other is not write:
                yield other

    def later(self, write: Write) -> Iterator[Write]:
        """Yield the statements on the same target that run after, nearest first."""
        for other in self._on_same_target(write):
            if other.order > write.order and other is not write:
                yield other

    def _on_same_target(self, write: Write) -> list[Write]:
        groups = self.remembered(_no_groups)
        name = write.target.name
        if name not in groups:
            groups[name] = [other for other in self._in_order() if same_table(other.target.name, name)]
        return groups[name]

    def _in_order(self) -> list[Write]:
        """Return the writes as they run: once the job is finished they stand so."""
        return self.writes if self.finished else sorted(self.writes, key=_order)

    def cleared_by(self, write: Write) -> Write | None:
        """Return the earlier statement that removes what the last run wrote, if there is one.

        A delete, truncate, drop or re-creation of the same target; appends in between do not matter.
        """
        for other in self.earlier(write):
            if other.mode in _CLEARS and not (other.mode is Mode.CREATE and other.if_not_exists):
                return other
        return None

    def all_queries(self) -> Iterator[tuple[Query, Write | None]]:
        """Yield every query at every depth, each once, with the write it feeds (None: only read)."""
        return iter(self.remembered(Job._all_queries))

    def _all_queries(self) -> list[tuple[Query, Write | None]]:
        found: list[tuple[Query, Write | None]] = []
        seen: set[int] = set()
        for write in self.writes:
            if write.query is not None:
                for query in write.query.walk():
                    if id(query) not in seen:
                        seen.add(id(query))
                        found.append((query, write))
        for top in self.queries:
            for query in top.walk():
                if id(query) not in seen:
                    seen.add(id(query))
                    found.append((query, None))
        return found

    def windowed(self, write: Write) -> bool:
        """Tell whether what is written is cut to a window: a filter with a parameter or a clock on some column."""
        return any(
            node.kind in {"param", "python"} or bool(node.origins)
            for filter_ in write.filters()
            for node in filter_.walk()
        )

    def has_date_parameter(self) -> Parameter | None:
        """Return the first parameter that is a date."""
        return next((parameter for parameter in self.parameters if parameter.is_date), None)


def _order(write: Write) -> int:
    return write.order


def _no_groups(_job: Job) -> dict[str, list[Write]]:
    return {}


_CLEARS = frozenset({Mode.DELETE, Mode.TRUNCATE, Mode.DROP, Mode.DROP_PARTITION, Mode.OVERWRITE, Mode.CREATE})


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


__all__ = [
    "DECIDING", "HARMLESS", "Call", "Context", "DbtModel", "Effect", "Job", "Merge", "Mode", "Orchestration",
    "Parameter", "Problem", "Target", "Task", "Use", "When", "Write", "is_audit_column", "same_table",
]  # fmt: skip
