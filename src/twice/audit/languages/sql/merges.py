"""MERGE: how rows of the source find theirs, and what happens then."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from twice.audit.expressions import Expr
from twice.audit.languages.sql.naming import aligned
from twice.audit.languages.sql.parts import Parts
from twice.audit.model import Merge, Mode, When, Write
from twice.audit.queries import Column, Query, Source


def merge(parts: Parts, node: exp.Merge) -> Write:
    """Read MERGE INTO … USING … ON …."""
    write = parts.write(node.this, Mode.MERGE)
    known = parts.convert.ctes(node, {})
    using = node.args.get("using")
    source = parts.convert.source_of(using, known) if isinstance(using, exp.Expression) else Source()
    write.query = source.query or Query(
        columns=[Column("*", Expr("star", "*", place=source.place))], sources=[source], place=source.place
    )
    on = node.args.get("on")
    condition = parts.convert.condition(on, known) if on is not None else None
    whens = tuple(_when(parts, when) for when in _whens(node))
    target_alias = (node.this.alias_or_name if isinstance(node.this, exp.Table) else "").lower()
    write.merge = Merge(condition, whens, target_alias or write.target.last, source.alias or source.name)
    write.key = tuple(merge_key(condition, write.merge.target_alias, write.target.last))
    if whens and all(not when.matched and when.action == "insert" for when in whens):
        write.mode = Mode.MERGE
    return write


def _when(parts: Parts, node: exp.Expression) -> When:
    then = node.args.get("then")
    condition = node.args.get("condition")
    place = parts.convert.place(node, parts.place)
    matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
    guard = parts.convert.expr(condition, place) if condition is not None else None
    if isinstance(then, exp.Update):
        star = any(isinstance(item, exp.Star) for item in then.expressions)
        return When(
            matched,
            "update",
            guard,
            tuple(parts.assignments(then.expressions)),
            star or not then.expressions,
            by_source,
            place,
        )
    if isinstance(then, exp.Insert):
        names = then.this.expressions if isinstance(then.this, (exp.Tuple, exp.Schema)) else []
        values = then.args.get("expression")
        exprs = values.expressions if isinstance(values, exp.Tuple) else []
        columns = aligned([parts.column_name(name) for name in names], len(exprs))
        pairs = tuple((name, parts.convert.expr(value, place)) for name, value in zip(columns, exprs, strict=False))
        return When(matched, "insert", guard, pairs, not pairs, by_source, place)
    text = (then.name if isinstance(then, exp.Expression) else str(then)).upper()
    return When(matched, "delete" if "DELETE" in text else "nothing", guard, (), False, by_source, place)


def _whens(node: exp.Merge) -> list[exp.Expression]:
    whens = node.args.get("whens")
    if isinstance(whens, exp.Expression):
        return list(whens.expressions)
    return list(node.expressions)


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
