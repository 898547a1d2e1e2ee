"""Statements that change a table, a path or a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from twice.audit.expressions import Expr
from twice.audit.places import NOWHERE, Place
from twice.audit.queries import Query
from twice.audit.vocabulary import is_scratch_name


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

    # Every rule looks modes up in sets, and each exists once: no need to hash its name every time.
    __hash__ = object.__hash__


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
        """Return whether both are the same table: equal, or equal but for a missing catalog or schema."""
        return same_table(self.name, other.name)


def same_table(one: str, other: str) -> bool:
    """Return whether two names mean the same table.

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
    looked_up: bool = False  # Python has asked the target for the row, and inserts only what is not there
    branches: tuple[str, ...] = ()  # the branches of Python that it stands in, each "line:test"
    incremental: bool = False  # dbt incremental model
    retries: int | None = None  # of the task it runs in
    order: int = 0  # position among all statements of the file, as they run
    origin: Literal["statement", "pre-hook", "post-hook", "model", "task"] = "statement"
    literal_rows: bool = False  # INSERT … VALUES
    key_checked: bool = False  # a constraint of the file holds for the key of this merge, or for its source
    unique_constraint: bool = False  # the file itself declares a key or unique constraint on the target

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it reads."""
        return self.query.tables() if self.query else ()

    def adds_rows(self) -> bool:
        """Return whether a second run adds its rows again."""
        return self.mode is Mode.APPEND

    def filters(self) -> Iterator[Expr]:
        """Yield all filters of its query, at any depth, and its own predicate."""
        if self.predicate is not None:
            yield self.predicate
        if self.query is not None:
            for query in self.query.walk():
                yield from query.filters
