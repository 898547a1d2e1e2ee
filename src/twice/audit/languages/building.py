"""Put the statements of a file together: their order, their transactions, what variables and views stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from twice.audit.classifying import bounded, classify, handed, watermark_of
from twice.audit.expressions import Expr, Order, Origin, replaced
from twice.audit.languages.sql.items import Control, Item, Read
from twice.audit.model import Job, Mode, Target, Write, same_table
from twice.audit.queries import Column, Query, Source

_MOST_APPENDS = 40


@dataclass
class Surroundings:
    """What is around the statements that are added: the task, the function, the transaction."""

    task: str = ""
    function: str = ""
    via: str = ""
    loop: bool = False
    guarded_by: str = ""
    branches: tuple[str, ...] = ()
    retries: int | None = None
    one_transaction: bool = False  # what is added at once commits at once
    origin: str = "statement"
    transaction: int | None = None  # of a connection that is not in autocommit mode
    always_open: bool = False  # a transaction lasts from one COMMIT to the next, as in Oracle


@dataclass
class JobBuilder:
    """Collects what a front end finds."""

    job: Job
    views: dict[str, Query] = field(default_factory=dict)
    variables: dict[str, Expr] = field(default_factory=dict)
    constraints: dict[str, set[str]] = field(default_factory=dict)
    _transactions: int = 0
    _open: int | None = None
    _commits: int = 0
    _guard: str = ""
    _appends: Counter[str] = field(default_factory=Counter)
    _assigned: dict[int, Query] = field(default_factory=dict)  # what variables stand for, bound where they were set

    def new_transaction(self) -> int:
        """Return a number for a new transaction."""
        self._transactions += 1
        return self._transactions

    def commit(self) -> None:
        """Note that what came before is committed."""
        self._commits += 1

    def add_items(self, items: Iterable[Item], around: Surroundings | None = None) -> list[Write]:
        """Add what a SQL text does; return its writes."""
        around = around or Surroundings()
        together = self.new_transaction() if around.one_transaction or around.always_open else around.transaction
        added: list[Write] = []
        guard = ""
        block = 0
        for item in items:
            if isinstance(item, Control):
                if item.kind == "begin":
                    self._open = self.new_transaction()
                elif item.kind in {"commit", "rollback"}:
                    self._open = None
                    together = self.new_transaction() if around.always_open else together
                    if item.kind == "commit":
                        self.commit()
                elif item.kind == "guard":
                    guard = item.value
                    continue
                elif item.kind == "block":
                    block += 1 if guard else 0
                    continue
                elif item.kind == "end":
                    block = max(0, block - 1)
                elif item.kind == "assign" or (item.kind == "set" and item.expr is not None):
                    self._assign(item, guard)
                elif item.kind == "call" and item.expr is not None:
                    self.job.uses.extend(handed(self._filled(item.expr), item.name))
                    continue
                if not block:
                    guard = ""
                continue
            if isinstance(item, Read):
                self.add_query(item.query)
            else:
                item.transaction = self._open if self._open is not None else together
                item.guarded_by = item.guarded_by or around.guarded_by or guard
                _surround(item, around)
                self.add_write(item)
                added.append(item)
            if not block:
                guard = ""
        return added

    def _assign(self, item: Control, guard: str) -> None:
        if item.kind == "set":
            self.job.settings[item.name] = item.value
        expr = item.expr
        if expr is None:
            return
        if expr.query is not None:
            self.bind(expr.query)
            self._assigned[id(expr.query)] = expr.query
            watermark = watermark_of(expr.query)
            if watermark is not None:
                expr = replace(expr, origins=frozenset({watermark}), query=None, kind="python", name=item.name)
        if guard and f"@{item.name}" in guard.lower() and "null" in guard.lower():
            expr = replaced(expr, lambda node: replace(node, origins=frozenset(replace(one, fallback=True) for one in node.origins)) if node.origins else None)  # fmt: skip
        if expr.kind != "other" or expr.args:
            self.variables[item.name] = bounded(self._filled(expr))

    def add_write(self, write: Write) -> None:
        """Add one statement, behind all that are there."""
        if write.mode is Mode.APPEND and self._is_seed(write):
            return
        if write.query is not None:
            self.bind(write.query)
        if self.variables:
            if write.predicate is not None:
                write.predicate = self._filled(write.predicate)
            write.assignments = tuple((name, self._filled(value)) for name, value in write.assignments)
            write.partition = tuple(
                (name, self._filled(value) if value is not None else None) for name, value in write.partition
            )
        if write.predicate is not None:
            self._bind_expr(write.predicate)
        write.order = len(self.job.writes) + 1
        write.commit_between = self._commits > 0 and bool(self.job.writes)
        if self._commits:
            self._commits = 0
        self.job.writes.append(write)
        if write.query is not None and (write.target.kind == "view" or write.target.temporary):
            self.views[write.target.name] = write.query

    def _is_seed(self, write: Write) -> bool:
        """Return whether a table is filled row by row: what holds for the first inserts holds for the thousandth."""
        self._appends[write.target.name] += 1
        return self._appends[write.target.name] > _MOST_APPENDS

    def add_query(self, query: Query) -> None:
        """Add a query that is only read."""
        self.bind(query)
        self.job.queries.append(query)

    def bind(self, query: Query) -> None:
        """Let a query know the views and variables of the file."""
        if not self.views and not self.variables:
            return
        known = self.variables
        self.variables = {name: value for name, value in known.items() if not _is_inside(value, query)}
        try:
            self._bind(query)
        finally:
            self.variables = known

    def _bind(self, query: Query) -> None:
        seen: set[int] = set()
        stack = [query]
        while stack:
            one = stack.pop()
            if id(one) in seen or id(one) in self._assigned:
                continue
            seen.add(id(one))
            stack.extend(inner for top in one.expressions() for inner in top.subqueries)
            one.sources = [self._bound(source, query) for source in one.sources]
            stack.extend((*one.branches, *(source.query for source in one.sources if source.query is not None)))
            if self.variables:
                one.filters = [self._filled(item) for item in one.filters]
                one.columns = [Column(item.name, self._filled(item.expr), item.place) for item in one.columns]
                one.order_by = [Order(self._filled(item.expr), item.descending) for item in one.order_by]

    def _bind_expr(self, expr: Expr) -> None:
        for query in expr.subqueries:
            self.bind(query)

    def _bound(self, source: Source, around: Query) -> Source:
        view = self.views.get(source.name) if source.query is None else None
        if view is not None and all(inner is not around for inner in view.walk()):
            source = replace(source, query=view, kind="query", name="", alias=source.alias or source.name)
        if source.on is not None and self.variables:
            source = replace(source, on=self._filled(source.on))
        return source

    def _filled(self, expr: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            if node.kind == "param":
                return self.variables.get(node.name.lower().lstrip("@:$"))
            if (
                node.kind == "column"
                and not node.table
                and node.name in self.variables
                and node.name not in self.job.settings
            ):
                return self.variables[node.name]  # SET x = … is read as $x only: a column may have the same name
            return None

        return replaced(expr, change)

    def _checks_key(self, write: Write) -> bool:
        """Return whether a constraint holds for the key of a merge's target, or for the table that it reads first."""
        for table, columns in self.constraints.items():
            if table and any(same_table(table, name) for name in write.sources[:1]):
                return True
            if table and same_table(table, write.target.name) and (not write.key or columns & set(write.key)):
                return True
        return False

    def finish(self) -> Job:
        """Draw the conclusions that need the whole file."""
        job = self.job
        temporary = {write.target.name for write in job.writes if write.target.temporary and write.mode is Mode.CREATE}
        for write in job.writes:
            if write.target.name in temporary and not write.target.temporary:
                write.target = replace(write.target, temporary=True)
            for table, columns in self.constraints.items():
                if columns and write.target.same(Target(table)):
                    write.unique_constraint = True
            write.key_checked = write.merge is not None and self._checks_key(write)
        filled = [write.target.name for write in job.writes if write.target.temporary and write.query is not None]
        if any(table and any(same_table(table, name) for name in filled) for table in self.constraints):
            job.checks_uniqueness = True
        _name_by_position(job)
        job.writes.sort(key=lambda write: write.order)
        job.finished = True
        for top in (*(write.query for write in job.writes), *job.queries):
            for query in top.walk() if top is not None else ():
                query.settled = True
        job.uses.extend(classify(job))
        return job


def _is_inside(value: Expr, query: Query) -> bool:
    """Return whether a variable is the result of a query: SELECT @n = @n + 1 … must not stand for itself."""
    return any(one is query for result in value.subqueries for one in result.walk())


def _name_by_position(job: Job) -> None:
    """INSERT INTO t SELECT …, when the file itself creates t with its columns."""
    known = {write.target.name: write.columns for write in job.writes if write.mode is Mode.CREATE and write.columns}
    for write in job.writes:
        columns = known.get(write.target.name)
        if columns and write.mode is Mode.APPEND and write.query is not None and not write.columns:
            query = write.query
            if len(query.columns) == len(columns) and all(one.name != "*" for one in query.columns):
                query.columns = [
                    Column(name, one.expr, one.place) for name, one in zip(columns, query.columns, strict=True)
                ]


def _surround(write: Write, around: Surroundings) -> None:
    write.task = write.task or around.task
    write.function = around.function or write.function
    write.loop = write.loop or around.loop
    write.branches = write.branches or around.branches
    write.retries = around.retries if write.retries is None else write.retries
    if around.via and write.via == "sql":
        write.via = around.via
    if around.origin in {"pre-hook", "post-hook", "task"}:
        write.origin = around.origin  # type: ignore[assignment]


def parameter(name: str, place: object) -> Expr:
    """Return an expression for a value that is given from outside."""
    from twice.audit.places import NOWHERE, Place

    where = place if isinstance(place, Place) else NOWHERE
    return Expr("param", name, place=where, origins=frozenset({Origin("parameter", name, where)}))
