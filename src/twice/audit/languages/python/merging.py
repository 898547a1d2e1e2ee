"""DeltaTable.merge, DeltaTable.delete and Glue's sinks."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Expr
from twice.audit.languages.python import frames
from twice.audit.languages.python.sqltexts import as_expr, condition
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Instance,
    MergeBuilder,
    Text,
    Value,
    alternatives,
    constant,
    frame_of,
    plain,
    shown,
)
from twice.audit.languages.python.writers import emit, target_of
from twice.audit.languages.sql.merges import merge_key
from twice.audit.model import Merge, Mode, Target, When, Write

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """DeltaTable.forName(...), forPath(...), and Glue."""
    last = dotted.rpartition(".")[2]
    if dotted.endswith(("DeltaTable.forName", "DeltaTable.forPath")):
        name = arguments[1] if len(arguments) > 1 else arguments[0] if arguments else Value()
        target = target_of(interp, name, node, kind="path" if last == "forPath" else "table")
        return Instance(
            kind="delta",
            attributes={"name": Text(pieces=[]), "target": name},
            name=target.name,
            place=interp.place(node),
        )
    if dotted.endswith(
        ("DeltaTable.create", "DeltaTable.createIfNotExists", "DeltaTable.createOrReplace", "DeltaTable.isDeltaTable")
    ):
        return Value(name=last)
    if dotted.endswith(
        (
            "write_dynamic_frame.from_options",
            "write_dynamic_frame.from_catalog",
            "write_dynamic_frame.from_jdbc_conf",
            "write_dynamic_frame_from_options",
            "write_dynamic_frame_from_catalog",
            "write_from_options",
        )
    ):
        return glue_write(interp, arguments, keywords, node, dotted)
    if "glue" in dotted.lower():
        found = glue(interp, dotted, last, arguments, keywords, node)
        if found is not None:
            return found
    if dotted in {
        "spark.catalog.dropTempView",
        "spark.catalog.refreshTable",
        "spark.catalog.cacheTable",
        "spark.catalog.clearCache",
    }:
        return Const()
    return None


def glue(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """A GlueContext under any name: its sinks append, purge_s3_path empties a path."""
    if "write_dynamic_frame" in full and last.startswith("from_"):
        return glue_write(interp, arguments, keywords, node, full)
    if last == "getSink":
        options = keywords.get("connection_options")
        items = options.items if isinstance(options, Entries) else {}
        return Instance(
            kind="glue sink",
            attributes={"path": keywords.get("path") or items.get("path") or items.get("dbtable") or Value()},
            name=last,
        )
    if last == "purge_s3_path" and arguments:
        emit(
            interp,
            Write(
                target_of(interp, arguments[0], node, kind="path"),
                Mode.DELETE,
                interp.place(node),
                via="glue",
                api=last,
            ),
        )
        return Const()
    return None


def sink_method(interp: Interpreter, sink: Instance, name: str, arguments: list[Value], node: ast.Call) -> Value | None:
    """sink.writeFrame(frame) appends files; setCatalogInfo and setFormat only describe them."""
    if name in {"setCatalogInfo", "setFormat"}:
        return sink
    if name not in {"writeFrame", "write"}:
        return None
    target = target_of(interp, sink.attributes.get("path"), node, kind="path")
    write = Write(target, Mode.APPEND, interp.place(node), via="glue", api="getSink", explicit_mode=False)
    frame = frame_of(*arguments)
    write.query = frame.query if frame is not None else None
    emit(interp, write)
    return Const()


def glue_write(
    interp: Interpreter, arguments: list[Value], keywords: dict[str, Value], node: ast.Call, name: str
) -> Value:
    """glueContext.write_dynamic_frame...: always an append."""
    frame = keywords.get("frame") or (arguments[0] if arguments else Value())
    found = next((one for one in alternatives(frame) if isinstance(one, Frame)), None) or frames.unknown_frame(
        frame.name, interp.place(node)
    )
    options = keywords.get("connection_options")
    items = options.items if isinstance(options, Entries) else {}
    where = keywords.get("table_name") or items.get("dbtable") or items.get("path") or Value()
    target = target_of(interp, where, node, kind="path" if "path" in items and "dbtable" not in items else "table")
    kinds = plain(keywords.get("connection_type")) or ""
    write = Write(
        target,
        Mode.APPEND,
        interp.place(node),
        query=found.query,
        via="glue",
        api=name.rpartition("write_dynamic_frame")[1] + "." + name.rpartition(".")[2],
        format=kinds,
        explicit_mode=False,
    )
    write.options = {key: shown(value) for key, value in items.items()}
    if "preactions" in items:
        pre = plain(items["preactions"]) or ""
        if any(word in pre.lower() for word in ("delete", "truncate", "drop")):
            clear = Write(target, Mode.DELETE, interp.place(node), via="sql", api="preactions")
            clear.transaction = write.transaction = interp.builder.new_transaction()
            interp.builder.add_write(clear)
    emit(interp, write)
    return Const()


def delta_method(
    interp: Interpreter, table: Instance, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a method of a DeltaTable."""
    place = interp.place(node)
    first = arguments[0] if arguments else None
    target = target_of(interp, table.attributes.get("target"), node)
    if "/" in target.name:
        target = replace(target, kind="path")
    if name in {"alias", "as_"}:
        return replace(table, attributes={**table.attributes, "alias": first or Value()})
    if name == "merge":
        source = keywords.get("source") or first or Value()
        on = keywords.get("condition") or (arguments[1] if len(arguments) > 1 else Value())
        frame = next((one for one in alternatives(source) if isinstance(one, Frame)), None) or frames.unknown_frame(
            source.name, place
        )
        expr = condition(interp, on, node) if isinstance(on, Text) else as_expr(interp, on, node)
        if not isinstance(on, Text):
            for one in alternatives(on):
                if isinstance(one, Text):
                    expr = condition(interp, one, node)
                    break
        return MergeBuilder(
            target=target.name,
            source=frame,
            on=expr,
            target_alias=shown(table.attributes.get("alias")).lower(),
            source_alias=frame.name,
            place=place,
            name=target.kind,
        )
    if name == "delete":
        predicate = None
        given = first or keywords.get("condition")
        if given is not None:
            predicate = condition(interp, given, node) if isinstance(given, Text) else as_expr(interp, given, node)
        emit(interp, Write(target, Mode.DELETE, place, predicate=predicate, via="delta", api="DeltaTable.delete"))
        return Const()
    if name == "update":
        where = keywords.get("condition") or (first if not isinstance(first, Entries) else None)
        values = keywords.get("set") or (arguments[1] if len(arguments) > 1 else first)
        predicate = (
            condition(interp, where, node)
            if isinstance(where, Text)
            else as_expr(interp, where, node)
            if where is not None
            else None
        )
        write = Write(target, Mode.UPDATE, place, predicate=predicate, via="delta", api="DeltaTable.update")
        write.assignments = tuple(_assignments(interp, values, node))
        emit(interp, write)
        return Const()
    if name == "toDF":
        return frames.table_frame(interp, target.name, place)
    return Value()


def _assignments(interp: Interpreter, value: Value | None, node: ast.AST) -> list[tuple[str, Expr]]:
    if not isinstance(value, Entries):
        return []
    found = []
    for name, one in value.items.items():
        expr = condition(interp, one, node) if isinstance(one, Text) else as_expr(interp, one, node)
        found.append((name.lower().rpartition(".")[2], expr))
    return found


def method(
    interp: Interpreter,
    builder: MergeBuilder,
    name: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
) -> Value | None:
    """Call a method of the merge builder."""
    place = interp.place(node)
    given = keywords.get("condition") or (arguments[0] if arguments and not isinstance(arguments[0], Entries) else None)
    guard = (
        (condition(interp, given, node) if isinstance(given, Text) else as_expr(interp, given, node))
        if given is not None and constant(given) != ""
        else None
    )
    values = (
        keywords.get("set")
        or keywords.get("values")
        or next((one for one in arguments if isinstance(one, Entries)), None)
    )
    pairs = tuple(_assignments(interp, values, node))
    whens = {
        "whenMatchedUpdate": When(True, "update", guard, pairs, place=place),
        "whenMatchedUpdateAll": When(True, "update", guard, (), True, place=place),
        "whenMatchedDelete": When(True, "delete", guard, place=place),
        "whenNotMatchedInsert": When(False, "insert", guard, pairs, place=place),
        "whenNotMatchedInsertAll": When(False, "insert", guard, (), True, place=place),
        "whenNotMatchedBySourceDelete": When(False, "delete", guard, by_source=True, place=place),
        "whenNotMatchedBySourceUpdate": When(False, "update", guard, pairs, by_source=True, place=place),
    }
    if name in whens:
        return replace(builder, whens=[*builder.whens, whens[name]])
    if name == "execute":
        merge = Merge(builder.on, tuple(builder.whens), builder.target_alias, builder.source_alias)
        target = Target(builder.target, "path" if builder.name == "path" else "table")
        write = Write(
            target,
            Mode.MERGE,
            builder.place,
            query=builder.source.query if builder.source else None,
            via="delta",
            api="DeltaTable.merge",
            merge=merge,
        )
        write.key = tuple(merge_key(builder.on, builder.target_alias, target.last))
        emit(interp, write)
        return Const()
    return builder
