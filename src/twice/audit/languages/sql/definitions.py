"""CREATE, ALTER and DROP."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from twice.audit.expressions import Expr, Origin
from twice.audit.languages.sql.parts import Parts
from twice.audit.model import Mode, Target, Write
from twice.audit.places import Place


def create(parts: Parts, node: exp.Create) -> Iterator[Write]:
    """Read CREATE TABLE, VIEW and INDEX."""
    kind = str(node.args.get("kind") or "").upper()
    if kind == "INDEX" and isinstance(node.this, exp.Index):
        index = Write(Target(node.this.name.lower(), "unknown"), Mode.CREATE, parts.place, api="CREATE INDEX")
        index.if_not_exists = bool(node.args.get("exists"))
        index.options = {"table": parts.convert.table_name(node.this.args.get("table"))}
        yield index
        return
    if kind not in {"TABLE", "VIEW", "MATERIALIZED VIEW"}:
        return
    properties = node.args.get("properties")
    items = list(properties.expressions) if properties is not None else []
    temporary = any(isinstance(item, (exp.TemporaryProperty, exp.GlobalProperty)) for item in items)
    if kind != "TABLE" and not any(isinstance(item, exp.MaterializedProperty) for item in items):
        target = parts.target(node.this, "view")
        write = Write(Target(target.name, "view", temporary, target.expr), Mode.CREATE, parts.place)
    else:
        target = parts.target(node.this)
        write = Write(
            Target(target.name, "table", temporary or target.temporary, target.expr), Mode.CREATE, parts.place
        )
    write.if_not_exists = bool(node.args.get("exists"))
    write.or_replace = bool(node.args.get("replace"))
    for item in items:
        if isinstance(item, exp.PartitionedByProperty) and isinstance(item.this, exp.Expression):
            names = [parts.convert.expr(part, parts.place) for part in item.this.expressions or [item.this]]
            columns = [name for part in names for name in (part.columns() or ((part.name,) if part.name else ()))]
            write.partition = tuple((name, None) for name in columns)
    expression = node.args.get("expression")
    if isinstance(expression, exp.Expression):
        write.query = parts.convert.query(expression, parts.convert.ctes(node, {}))
        if write.or_replace and write.target.kind == "table":
            write.mode = Mode.OVERWRITE
    if isinstance(node.this, exp.Schema):
        _schema(parts, node.this, write)
    yield write


def _schema(parts: Parts, node: exp.Schema, write: Write) -> None:
    columns: list[str] = []
    assignments: list[tuple[str, Expr]] = []
    for item in node.expressions:
        if isinstance(item, exp.ColumnDef):
            name = item.name.lower()
            columns.append(name)
            place = parts.convert.place(item, parts.place)
            type_ = item.args.get("kind")
            type_name = type_.sql().upper() if isinstance(type_, exp.Expression) else ""
            if "SERIAL" in type_name:
                assignments.append((name, _identity("serial", place)))
            for constraint in item.args.get("constraints") or ():
                what = constraint.args.get("kind")
                if isinstance(what, (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint)):
                    parts.constraints.setdefault(write.target.name, set()).add(name)
                elif isinstance(what, (exp.AutoIncrementColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)):
                    if not (isinstance(what, exp.GeneratedAsIdentityColumnConstraint) and what.args.get("expression")):
                        assignments.append((name, _identity("identity", place)))
                elif isinstance(what, exp.DefaultColumnConstraint):
                    value = parts.convert.expr(what.this, place)
                    if value.origins:
                        assignments.append((name, value))
        elif isinstance(item, (exp.PrimaryKey, exp.UniqueColumnConstraint, exp.Constraint)):
            names = [below.name.lower() for below in item.find_all(exp.Identifier)]
            parts.constraints.setdefault(write.target.name, set()).update(names)
    write.columns = tuple(columns)
    write.assignments = tuple(assignments)


def alter(parts: Parts, node: exp.Alter) -> Write:
    """Read ALTER TABLE; what drops partitions is kept apart."""
    for action in node.args.get("actions") or ():
        if isinstance(action, exp.DropPartition):
            write = parts.write(node.this, Mode.DROP_PARTITION)
            for partition in action.expressions:
                write.partition += tuple(parts.partition_items(partition))
                for item in partition.expressions:
                    if isinstance(item, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
                        write.predicate = parts.convert.expr(item, parts.place)
            write.if_not_exists = bool(action.args.get("exists"))
            return write
    return parts.write(node.this, Mode.ALTER)


def drop(parts: Parts, node: exp.Drop) -> Iterator[Write]:
    """Read DROP TABLE and DROP VIEW, of one or of several."""
    kind = str(node.args.get("kind") or "").upper()
    if kind not in {"TABLE", "VIEW", "MATERIALIZED VIEW"}:
        return
    tables = [node.this] if isinstance(node.this, exp.Expression) else []
    for table in [*tables, *(node.args.get("tables") or ()), *(node.expressions or ())]:
        write = parts.write(table, Mode.DROP, kind="table" if "TABLE" in kind else "view")
        write.if_not_exists = bool(node.args.get("exists"))
        yield write


def _identity(name: str, place: Place) -> Expr:
    return Expr("call", "identity", place=place, origins=frozenset({Origin("sequence", name, place)}))
