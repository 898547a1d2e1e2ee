"""INSERT, with what it does on a conflict, COPY and LOAD DATA."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from twice.audit.languages.sql.naming import name_columns
from twice.audit.languages.sql.parts import Parts
from twice.audit.model import Merge, Mode, Target, When, Write


def insert(parts: Parts, node: exp.Insert) -> Write:
    """Read INSERT INTO, INSERT OVERWRITE and their kin."""
    target = node.this
    table = target.this if isinstance(target, exp.Schema) else target
    if isinstance(table, exp.Directory):
        write = Write(Target(str(table.name).lower(), "path"), Mode.OVERWRITE, parts.place)
    else:
        write = parts.write(target, Mode.OVERWRITE if node.args.get("overwrite") else Mode.APPEND)
    if isinstance(target, exp.Schema):
        write.columns = tuple(parts.column_name(item) for item in target.expressions)
    partition = node.args.get("partition") or (table.args.get("partition") if isinstance(table, exp.Table) else None)
    if isinstance(partition, exp.Expression):
        write.partition = tuple(parts.partition_items(partition))
        if write.mode is Mode.OVERWRITE:
            write.mode = Mode.OVERWRITE_PARTITIONS
    known = parts.convert.ctes(node, {})
    expression = node.args.get("expression")
    if isinstance(expression, exp.Expression):
        write.query = parts.convert.query(expression, known)
        write.literal_rows = isinstance(expression, exp.Values)
        if write.columns:
            name_columns(write.query, write.columns)
    where = node.args.get("where")
    if where is not None:
        write.mode, write.predicate = Mode.REPLACE_WHERE, parts.convert.condition(where, known)
    alternative = str(node.args.get("alternative") or "").upper()
    if node.args.get("ignore") or alternative == "IGNORE":
        write.mode = Mode.INSERT_NEW
    elif alternative == "REPLACE":
        write.mode = Mode.UPSERT
    conflict = node.args.get("conflict")
    if conflict is not None:
        _conflict(parts, conflict, write)
    return write


def _conflict(parts: Parts, node: exp.Expression, write: Write) -> None:
    keys = [key.this if isinstance(key, exp.Ordered) else key for key in node.args.get("conflict_keys") or ()]
    write.key = tuple(key.name.lower() for key in keys if isinstance(key, exp.Expression))
    action = node.args.get("action")
    text = action.name.upper() if isinstance(action, exp.Expression) else ""
    assignments = tuple(parts.assignments(node.expressions))
    if "NOTHING" in text or (not assignments and "UPDATE" not in text):
        write.mode = Mode.INSERT_NEW
        when = When(True, "nothing", place=parts.place)
    else:
        write.mode = Mode.UPSERT
        where = node.args.get("where")
        condition = parts.convert.expr(where, parts.place) if where is not None else None
        when = When(True, "update", condition, assignments, place=parts.place)
    write.merge = Merge(None, (when, When(False, "insert", all_columns=True, place=parts.place)), conflict=True,
                        target_alias=write.target.last, source_alias="excluded")  # fmt: skip


def copy(parts: Parts, node: exp.Copy) -> Write:
    """Read COPY INTO a table."""
    write = parts.write(node.this, Mode.APPEND, via="copy")
    write.api = "COPY"
    write.options = dict(_copy_options(node))
    return write


def load_data(parts: Parts, node: exp.LoadData) -> Write:
    """Read LOAD DATA of Hive."""
    write = parts.write(node.this, Mode.OVERWRITE if node.args.get("overwrite") else Mode.APPEND, via="copy")
    write.api = "LOAD DATA"
    if node.args.get("partition") and write.mode is Mode.OVERWRITE:
        write.mode = Mode.OVERWRITE_PARTITIONS
    return write


def _copy_options(node: exp.Copy) -> Iterator[tuple[str, str]]:
    for item in node.args.get("params") or ():
        if isinstance(item.this, exp.Expression):
            value = item.args.get("expression")
            yield (
                item.this.name.lower(),
                (value.name or value.sql()).lower() if isinstance(value, exp.Expression) else "",
            )
