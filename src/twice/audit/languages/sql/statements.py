"""sqlglot's statements as our writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

from sqlglot import exp

from twice.audit.expressions import Expr
from twice.audit.languages.sql import definitions, inserts
from twice.audit.languages.sql.items import Control, Item, Read
from twice.audit.languages.sql.merges import merge
from twice.audit.languages.sql.nodes import argument
from twice.audit.languages.sql.parts import Parts
from twice.audit.model import Mode, Target, Write
from twice.audit.queries import Query


class StatementReader(Parts):
    """Turns one parsed statement into what it does."""

    def read(self, node: exp.Expression) -> Iterator[Item]:
        """Yield what a statement does, in the order in which it is done."""
        with_ = argument(node, "with")
        if with_ is not None:
            for cte in with_.expressions:  # Postgres: WITH gone AS (DELETE … RETURNING *)
                if isinstance(cte.this, (exp.Delete, exp.Insert, exp.Update)):
                    yield from self.read(cte.this)
        if isinstance(node, exp.Insert):
            yield inserts.insert(self, node)
        elif isinstance(node, exp.Merge):
            yield merge(self, node)
        elif isinstance(node, exp.Update):
            yield self._update(node)
        elif isinstance(node, exp.Delete):
            yield self._delete(node)
        elif isinstance(node, exp.TruncateTable):
            for table in node.expressions:
                yield self.write(table, Mode.TRUNCATE)
        elif isinstance(node, exp.Drop):
            yield from definitions.drop(self, node)
        elif isinstance(node, exp.Create):
            yield from definitions.create(self, node)
        elif isinstance(node, exp.Alter):
            yield definitions.alter(self, node)
        elif isinstance(node, exp.Copy):
            if node.args.get("kind"):
                yield inserts.copy(self, node)
        elif isinstance(node, exp.LoadData):
            yield inserts.load_data(self, node)
        elif isinstance(node, (exp.Transaction, exp.Commit, exp.Rollback)):
            names: dict[type, Literal["begin", "commit", "rollback"]] = {exp.Transaction: "begin", exp.Commit: "commit"}
            yield Control(names.get(type(node), "rollback"), self.place)
        elif isinstance(node, exp.Set):
            yield from self._set(node)
        elif isinstance(node, exp.Declare):
            yield from self._declare(node)
        elif isinstance(node, exp.Query):
            yield from self._select(node)
        elif isinstance(node, exp.Cache):
            pass

    def _update(self, node: exp.Update) -> Write:
        write = self.write(node.this, Mode.UPDATE)
        write.alias = node.this.alias_or_name.lower() if isinstance(node.this, exp.Table) else ""
        known = self.convert.ctes(node, {})
        write.assignments = tuple(self.assignments(node.expressions))
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
        write = self.write(table, Mode.DELETE)
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

    def _declare(self, node: exp.Declare) -> Iterator[Item]:
        for item in node.expressions:
            default = item.args.get("default")
            if default is not None:
                first = item.this[0] if isinstance(item.this, list) else item.this
                name = first.name if isinstance(first, exp.Expression) else str(first)
                yield Control(
                    "assign", self.place, name.lower().lstrip("@"), expr=self.convert.expr(default, self.place)
                )

    def _select(self, node: exp.Query) -> Iterator[Item]:
        query = self.convert.query(cast("exp.Expression", node), {})
        into = node.args.get("into")
        if into is not None:
            target = self.target(into.this)
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
