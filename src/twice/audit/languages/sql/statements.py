"""sqlglot's statements as our writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from sqlglot import exp

from twice.audit.expressions import Expr, Origin
from twice.audit.languages.sql.convert import Converter
from twice.audit.languages.sql.nodes import argument
from twice.audit.model import Merge, Mode, Target, When, Write
from twice.audit.places import Place
from twice.audit.queries import Column, Query, Source


@dataclass(frozen=True)
class Control:
    """A statement that changes no table: it begins or ends a transaction, or sets something."""

    kind: Literal["begin", "commit", "rollback", "set", "guard", "block", "end", "assign", "call", "other"]
    place: Place
    name: str = ""
    value: str = ""
    expr: Expr | None = None


@dataclass
class Read:
    """A query that is only read."""

    query: Query
    place: Place


Item = Write | Read | Control


@dataclass
class StatementReader:
    """Turns one parsed statement into what it does."""

    convert: Converter
    place: Place
    constraints: dict[str, set[str]] = field(default_factory=dict)

    def read(self, node: exp.Expression) -> Iterator[Item]:
        """Yield what a statement does, in the order in which it is done."""
        with_ = argument(node, "with")
        if with_ is not None:
            for cte in with_.expressions:  # Postgres: WITH gone AS (DELETE … RETURNING *)
                if isinstance(cte.this, (exp.Delete, exp.Insert, exp.Update)):
                    yield from self.read(cte.this)
        if isinstance(node, exp.Insert):
            yield from self._insert(node)
        elif isinstance(node, exp.Merge):
            yield self._merge(node)
        elif isinstance(node, exp.Update):
            yield self._update(node)
        elif isinstance(node, exp.Delete):
            yield self._delete(node)
        elif isinstance(node, exp.TruncateTable):
            for table in node.expressions:
                yield self._write(table, Mode.TRUNCATE)
        elif isinstance(node, exp.Drop):
            if str(node.args.get("kind") or "").upper() in {"TABLE", "VIEW", "MATERIALIZED VIEW"}:
                tables = [node.this] if isinstance(node.this, exp.Expression) else []
                for table in [*tables, *(node.args.get("tables") or ()), *(node.expressions or ())]:
                    write = self._write(
                        table, Mode.DROP, kind="table" if "TABLE" in str(node.args["kind"]).upper() else "view"
                    )
                    write.if_not_exists = bool(node.args.get("exists"))
                    yield write
        elif isinstance(node, exp.Create):
            yield from self._create(node)
        elif isinstance(node, exp.Alter):
            yield from self._alter(node)
        elif isinstance(node, exp.Copy):
            if node.args.get("kind"):
                write = self._write(node.this, Mode.APPEND, via="copy")
                write.api = "COPY"
                write.options = dict(_copy_options(node))
                yield write
        elif isinstance(node, exp.LoadData):
            write = self._write(node.this, Mode.OVERWRITE if node.args.get("overwrite") else Mode.APPEND, via="copy")
            write.api = "LOAD DATA"
            if node.args.get("partition") and write.mode is Mode.OVERWRITE:
                write.mode = Mode.OVERWRITE_PARTITIONS
            yield write
        elif isinstance(node, (exp.Transaction, exp.Commit, exp.Rollback)):
            names: dict[type, Literal["begin", "commit", "rollback"]] = {exp.Transaction: "begin", exp.Commit: "commit"}
            yield Control(names.get(type(node), "rollback"), self.place)
        elif isinstance(node, exp.Set):
            yield from self._set(node)
        elif isinstance(node, exp.Declare):
            for item in node.expressions:
                default = item.args.get("default")
                if default is not None:
                    first = item.this[0] if isinstance(item.this, list) else item.this
                    name = first.name if isinstance(first, exp.Expression) else str(first)
                    yield Control(
                        "assign", self.place, name.lower().lstrip("@"), expr=self.convert.expr(default, self.place)
                    )
        elif isinstance(node, exp.Query):
            yield from self._select(node)
        elif isinstance(node, exp.Cache):
            pass

    def _target(self, node: object, kind: str = "table") -> Target:
        inner = node.this if isinstance(node, exp.Schema) else node
        name = self.convert.table_name(inner) if isinstance(inner, exp.Expression) else ""
        temporary = name.rsplit(".", 1)[-1].startswith(("#", "@")) or isinstance(inner, exp.Parameter)
        expr = self.convert.name_expr(inner) if isinstance(inner, exp.Expression) else None
        return Target(name, "view" if kind == "view" else "table", temporary=temporary, expr=expr)

    def _write(self, node: object, mode: Mode, *, via: str = "sql", kind: str = "table") -> Write:
        return Write(self._target(node, kind), mode, self.place, via=via)

    def _insert(self, node: exp.Insert) -> Iterator[Item]:
        target = node.this
        table = target.this if isinstance(target, exp.Schema) else target
        if isinstance(table, exp.Directory):
            write = Write(Target(str(table.name).lower(), "path"), Mode.OVERWRITE, self.place)
        else:
            write = self._write(target, Mode.OVERWRITE if node.args.get("overwrite") else Mode.APPEND)
        if isinstance(target, exp.Schema):
            write.columns = tuple(self._column_name(item) for item in target.expressions)
        partition = node.args.get("partition") or (
            table.args.get("partition") if isinstance(table, exp.Table) else None
        )
        if isinstance(partition, exp.Expression):
            write.partition = tuple(self._partition_items(partition))
            if write.mode is Mode.OVERWRITE:
                write.mode = Mode.OVERWRITE_PARTITIONS
        known = self.convert.ctes(node, {})
        expression = node.args.get("expression")
        if isinstance(expression, exp.Expression):
            write.query = self.convert.query(expression, known)
            write.literal_rows = isinstance(expression, exp.Values)
            if write.columns:
                _name_columns(write.query, write.columns)
        where = node.args.get("where")
        if where is not None:
            write.mode, write.predicate = Mode.REPLACE_WHERE, self.convert.condition(where, known)
        alternative = str(node.args.get("alternative") or "").upper()
        if node.args.get("ignore") or alternative == "IGNORE":
            write.mode = Mode.INSERT_NEW
        elif alternative == "REPLACE":
            write.mode = Mode.UPSERT
        conflict = node.args.get("conflict")
        if conflict is not None:
            self._conflict(conflict, write)
        yield write

    def _partition_items(self, node: exp.Expression) -> Iterator[tuple[str, Expr | None]]:
        for item in node.expressions:
            if isinstance(item, exp.EQ):
                yield item.this.name.lower(), self.convert.expr(item.args.get("expression"), self.place)
            elif not isinstance(item, exp.Predicate):
                yield item.name.lower(), None

    def _conflict(self, node: exp.Expression, write: Write) -> None:
        keys = [key.this if isinstance(key, exp.Ordered) else key for key in node.args.get("conflict_keys") or ()]
        write.key = tuple(key.name.lower() for key in keys if isinstance(key, exp.Expression))
        action = node.args.get("action")
        text = action.name.upper() if isinstance(action, exp.Expression) else ""
        assignments = tuple(self._assignments(node.expressions))
        if "NOTHING" in text or (not assignments and "UPDATE" not in text):
            write.mode = Mode.INSERT_NEW
            when = When(True, "nothing", place=self.place)
        else:
            write.mode = Mode.UPSERT
            where = node.args.get("where")
            condition = self.convert.expr(where, self.place) if where is not None else None
            when = When(True, "update", condition, assignments, place=self.place)
        write.merge = Merge(None, (when, When(False, "insert", all_columns=True, place=self.place)), conflict=True,
                            target_alias=write.target.last, source_alias="excluded")  # fmt: skip

    def _assignments(self, nodes: list[exp.Expression]) -> Iterator[tuple[str, Expr]]:
        for item in nodes:
            if isinstance(item, exp.EQ):
                left, right = item.this, item.args.get("expression")
                place = self.convert.place(left, self.place)
                if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
                    for one, other in zip(left.expressions, right.expressions, strict=False):
                        yield self._column_name(one), self.convert.expr(other, place)
                else:
                    yield self._column_name(left), self.convert.expr(right, place)

    def _column_name(self, node: exp.Expression) -> str:
        """Return the name of a column that is written; one that is put together stands in braces: {column}."""
        return self.convert.source.readable(node.name.lower())

    def _merge(self, node: exp.Merge) -> Write:
        write = self._write(node.this, Mode.MERGE)
        known = self.convert.ctes(node, {})
        using = node.args.get("using")
        source = self.convert.source_of(using, known) if isinstance(using, exp.Expression) else Source()
        write.query = source.query or Query(
            columns=[Column("*", Expr("star", "*", place=source.place))], sources=[source], place=source.place
        )
        on = node.args.get("on")
        condition = self.convert.condition(on, known) if on is not None else None
        whens = tuple(self._when(when) for when in _whens(node))
        target_alias = (node.this.alias_or_name if isinstance(node.this, exp.Table) else "").lower()
        write.merge = Merge(condition, whens, target_alias or write.target.last, source.alias or source.name)
        write.key = tuple(merge_key(condition, write.merge.target_alias, write.target.last))
        if whens and all(not when.matched and when.action == "insert" for when in whens):
            write.mode = Mode.MERGE
        return write

    def _when(self, node: exp.Expression) -> When:
        then = node.args.get("then")
        condition = node.args.get("condition")
        place = self.convert.place(node, self.place)
        matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
        guard = self.convert.expr(condition, place) if condition is not None else None
        if isinstance(then, exp.Update):
            star = any(isinstance(item, exp.Star) for item in then.expressions)
            return When(
                matched,
                "update",
                guard,
                tuple(self._assignments(then.expressions)),
                star or not then.expressions,
                by_source,
                place,
            )
        if isinstance(then, exp.Insert):
            names = then.this.expressions if isinstance(then.this, (exp.Tuple, exp.Schema)) else []
            values = then.args.get("expression")
            exprs = values.expressions if isinstance(values, exp.Tuple) else []
            columns = aligned([self._column_name(name) for name in names], len(exprs))
            pairs = tuple((name, self.convert.expr(value, place)) for name, value in zip(columns, exprs, strict=False))
            return When(matched, "insert", guard, pairs, not pairs, by_source, place)
        text = (then.name if isinstance(then, exp.Expression) else str(then)).upper()
        return When(matched, "delete" if "DELETE" in text else "nothing", guard, (), False, by_source, place)

    def _update(self, node: exp.Update) -> Write:
        write = self._write(node.this, Mode.UPDATE)
        write.alias = node.this.alias_or_name.lower() if isinstance(node.this, exp.Table) else ""
        known = self.convert.ctes(node, {})
        write.assignments = tuple(self._assignments(node.expressions))
        where = node.args.get("where")
        if where is not None:
            write.predicate = self.convert.condition(where.this, known)
        from_ = argument(node, "from")
        if from_ is not None and isinstance(from_.this, exp.Expression):
            source = self.convert.source_of(from_.this, known)
            write.query = Query(sources=[source], place=source.place)
            alias = node.this.name.lower() if isinstance(node.this, exp.Table) else ""
            if source.alias == alias and source.name and source.name != alias:  # T-SQL: UPDATE t SET … FROM orders t
                write.target = Target(source.name)
        return write

    def _delete(self, node: exp.Delete) -> Write:
        table = node.this
        if not isinstance(table, exp.Expression) and node.args.get("tables"):  # T-SQL: DELETE orders
            table = node.args["tables"][0]
        write = self._write(table, Mode.DELETE)
        known = self.convert.ctes(node, {})
        where = node.args.get("where")
        if where is not None:
            write.predicate = self.convert.condition(where.this, known)
        using = node.args.get("using")
        if using:
            items = using if isinstance(using, list) else [using]
            sources = [self.convert.source_of(item, known) for item in items if isinstance(item, exp.Expression)]
            write.query = Query(sources=sources, place=self.place)
        return write

    def _create(self, node: exp.Create) -> Iterator[Item]:
        kind = str(node.args.get("kind") or "").upper()
        if kind == "INDEX" and isinstance(node.this, exp.Index):
            index = Write(Target(node.this.name.lower(), "unknown"), Mode.CREATE, self.place, api="CREATE INDEX")
            index.if_not_exists = bool(node.args.get("exists"))
            index.options = {"table": self.convert.table_name(node.this.args.get("table"))}
            yield index
            return
        if kind not in {"TABLE", "VIEW", "MATERIALIZED VIEW"}:
            return
        properties = node.args.get("properties")
        items = list(properties.expressions) if properties is not None else []
        temporary = any(isinstance(item, (exp.TemporaryProperty, exp.GlobalProperty)) for item in items)
        if kind != "TABLE" and not any(isinstance(item, exp.MaterializedProperty) for item in items):
            target = self._target(node.this, "view")
            write = Write(Target(target.name, "view", temporary, target.expr), Mode.CREATE, self.place)
        else:
            target = self._target(node.this)
            write = Write(
                Target(target.name, "table", temporary or target.temporary, target.expr), Mode.CREATE, self.place
            )
        write.if_not_exists = bool(node.args.get("exists"))
        write.or_replace = bool(node.args.get("replace"))
        for item in items:
            if isinstance(item, exp.PartitionedByProperty) and isinstance(item.this, exp.Expression):
                names = [self.convert.expr(part, self.place) for part in item.this.expressions or [item.this]]
                columns = [name for part in names for name in (part.columns() or ((part.name,) if part.name else ()))]
                write.partition = tuple((name, None) for name in columns)
        expression = node.args.get("expression")
        if isinstance(expression, exp.Expression):
            write.query = self.convert.query(expression, self.convert.ctes(node, {}))
            if write.or_replace and write.target.kind == "table":
                write.mode = Mode.OVERWRITE
        if isinstance(node.this, exp.Schema):
            self._schema(node.this, write)
        yield write

    def _schema(self, node: exp.Schema, write: Write) -> None:
        columns: list[str] = []
        assignments: list[tuple[str, Expr]] = []
        for item in node.expressions:
            if isinstance(item, exp.ColumnDef):
                name = item.name.lower()
                columns.append(name)
                place = self.convert.place(item, self.place)
                type_ = item.args.get("kind")
                type_name = type_.sql().upper() if isinstance(type_, exp.Expression) else ""
                if "SERIAL" in type_name:
                    assignments.append((name, _identity("serial", place)))
                for constraint in item.args.get("constraints") or ():
                    what = constraint.args.get("kind")
                    if isinstance(what, (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint)):
                        self.constraints.setdefault(write.target.name, set()).add(name)
                    elif isinstance(what, (exp.AutoIncrementColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)):
                        if not (
                            isinstance(what, exp.GeneratedAsIdentityColumnConstraint) and what.args.get("expression")
                        ):
                            assignments.append((name, _identity("identity", place)))
                    elif isinstance(what, exp.DefaultColumnConstraint):
                        value = self.convert.expr(what.this, place)
                        if value.origins:
                            assignments.append((name, value))
            elif isinstance(item, (exp.PrimaryKey, exp.UniqueColumnConstraint, exp.Constraint)):
                names = [below.name.lower() for below in item.find_all(exp.Identifier)]
                self.constraints.setdefault(write.target.name, set()).update(names)
        write.columns = tuple(columns)
        write.assignments = tuple(assignments)

    def _alter(self, node: exp.Alter) -> Iterator[Item]:
        for action in node.args.get("actions") or ():
            if isinstance(action, exp.DropPartition):
                write = self._write(node.this, Mode.DROP_PARTITION)
                for partition in action.expressions:
                    write.partition += tuple(self._partition_items(partition))
                    for item in partition.expressions:
                        if isinstance(item, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
                            write.predicate = self.convert.expr(item, self.place)
                write.if_not_exists = bool(action.args.get("exists"))
                yield write
                return
        yield self._write(node.this, Mode.ALTER)

    def _set(self, node: exp.Set) -> Iterator[Item]:
        for item in node.expressions:
            inner = item.this
            if isinstance(inner, exp.EQ):
                name = inner.this.sql() if isinstance(inner.this, exp.Expression) else ""
                value = inner.args.get("expression")
                text = value.name if isinstance(value, (exp.Literal, exp.Var, exp.Column)) else ""
                yield Control(
                    "set", self.place, name.lower().lstrip("@"), text.lower(), expr=self.convert.expr(value, self.place)
                )

    def _select(self, node: exp.Query) -> Iterator[Item]:
        query = self.convert.query(cast("exp.Expression", node), {})
        into = node.args.get("into")
        if into is not None:
            target = self._target(into.this)
            temporary = bool(into.args.get("temporary")) or target.temporary
            name = f"#{target.name}" if temporary and not target.name.startswith("#") else target.name
            if name.startswith("@") or target.name.startswith("@"):
                yield Read(query, self.place)
                return
            yield Write(
                Target(name, "table", temporary, target.expr), Mode.CREATE, self.place, query=query, api="SELECT INTO"
            )
            return
        for column in query.columns:  # T-SQL: SELECT @last = MAX(x) FROM t
            if (
                column.expr.kind == "op"
                and column.expr.name == "="
                and column.expr.args
                and column.expr.args[0].kind == "param"
            ):
                name = column.expr.args[0].name.lower().lstrip("@")
                yield Control("assign", self.place, name, expr=Expr("query", query=query, place=self.place))
        yield Read(query, self.place)


def _identity(name: str, place: Place) -> Expr:
    return Expr("call", "identity", place=place, origins=frozenset({Origin("sequence", name, place)}))


def _copy_options(node: exp.Copy) -> Iterator[tuple[str, str]]:
    for item in node.args.get("params") or ():
        if isinstance(item.this, exp.Expression):
            value = item.args.get("expression")
            yield (
                item.this.name.lower(),
                (value.name or value.sql()).lower() if isinstance(value, exp.Expression) else "",
            )


def _whens(node: exp.Merge) -> list[exp.Expression]:
    whens = node.args.get("whens")
    if isinstance(whens, exp.Expression):
        return list(whens.expressions)
    return list(node.expressions)


def aligned(names: Sequence[str], values: int) -> list[str]:
    """Return a name for each value, when a name in braces may stand for any number of columns."""
    open_ended = [index for index, name in enumerate(names) if name.startswith("{")]
    if not open_ended or len(names) == values:
        return list(names)
    before, after = names[: open_ended[0]], names[open_ended[-1] + 1 :]
    between = max(0, values - len(before) - len(after))
    return [*before, *[names[open_ended[0]]] * between, *after[max(0, len(before) + len(after) - values) :]]


def _name_columns(query: Query, names: tuple[str, ...]) -> None:
    """Give the columns of a query the names of the columns that they are inserted into."""
    for branch in query.branches:
        _name_columns(branch, names)
    given = aligned(names, len(query.columns))
    if query.columns and not any(column.name == "*" for column in query.columns) and len(query.columns) >= len(given):
        query.columns = [
            Column(given[index] if index < len(given) else column.name, column.expr, column.place)
            for index, column in enumerate(query.columns)
        ]


def merge_key(on: Expr | None, target_alias: str, target_last: str) -> Iterator[str]:
    """Yield the target's columns that a merge condition compares with the source's."""
    if on is None:
        return
    sides = {target_alias, target_last, "target", "t", "tgt", "dest", "main", "existing", "old"} - {""}
    for part in on.conjuncts():
        if part.kind == "op" and part.name in {"=", "<=>"} and len(part.args) == 2:
            names = []
            for arg in part.args:
                found = [node for node in arg.walk() if node.kind == "column"]
                if found:
                    names.append(found[0])
            if len(names) == 2 and names[0].table != names[1].table:
                mine = next((one for one in names if one.table == target_alias), None)
                mine = mine or next((one for one in names if one.table in sides), names[0])
                yield mine.name
            elif len(names) == 2:
                yield names[0].name
