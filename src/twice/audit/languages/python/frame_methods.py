"""Methods of DataFrames: every one makes the next query."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.classifying import watermark_of
from twice.audit.expressions import Expr, Origin
from twice.audit.languages.python import dstreams, writers
from twice.audit.languages.python.columns import _flat, column_of, order_of
from twice.audit.languages.python.combining import grouped_method, join
from twice.audit.languages.python.frames import derived, filtered, over, with_column
from twice.audit.languages.python.sqltexts import as_expr, condition, expression_and_alias
from twice.audit.languages.python.values import (
    NONE,
    Col,
    Const,
    Entries,
    Frame,
    Function,
    Grouped,
    Instance,
    Items,
    Origins,
    Text,
    Value,
    Writer,
    column_name,
    constant,
    made_of,
    origins_of,
    shown,
)
from twice.audit.queries import Column, Query, Source

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_SAME = frozenset(
    {
        "cache", "persist", "unpersist", "repartition", "coalesce", "checkpoint", "localCheckpoint", "hint", "fillna", "dropna", "fill", "na",
        "repartitionByRange", "sortWithinPartitions", "toDF", "replace", "reset_index", "copy", "rename", "astype", "set_index", "to_pandas_on_spark", "pandas_api",
        "withMetadata", "observe", "to", "isStreaming", "infer_objects", "convert_dtypes", "collect_schema", "lazy", "with_columns_renamed",
    }
)  # fmt: skip


_ROWS = frozenset(
    {
        "collect",
        "first",
        "head",
        "take",
        "toPandas",
        "tail",
        "toLocalIterator",
        "count",
        "isEmpty",
        "collectAsMap",
        "to_dict",
        "fetchall",
        "item",
        "iterrows",
        "itertuples",
        "to_records",
        "values",
        "scalar",
        "tolist",
        "toJSON",
    }
)


def method(
    interp: Interpreter, frame: Frame, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Call a method of a DataFrame."""
    place = interp.place(node)
    first = arguments[0] if arguments else None
    if name == "toDF" and arguments:
        return dstreams.named(frame, [shown(one).lower() for one in _flat(arguments)])
    if name in _SAME:
        return frame
    if name in {"filter", "where"} and (first is not None or "condition" in keywords):
        given = first if first is not None else keywords["condition"]
        if frame.query.language == "pandas" and not isinstance(given, (Col, Text)):
            return frame
        expr = condition(interp, given, node) if isinstance(given, Text) else as_expr(interp, given, node)
        return filtered(interp, frame, expr)
    if name == "query" and isinstance(first, Text):
        return filtered(interp, frame, condition(interp, first, node))
    if name == "withColumn" and len(arguments) >= 2:
        return with_column(interp, frame, column_name(first) or shown(first), arguments[1], node)
    if name in {"withColumns", "assign", "with_columns"}:
        items = dict(first.items) if isinstance(first, Entries) else {}
        items.update(keywords)
        for column, value in items.items():
            result = value
            if isinstance(value, Function):
                result = interp.call_function(value, [frame], {}, node)
            frame = with_column(interp, frame, column, result, node)
        return frame
    if name == "select":
        return _select(interp, frame, _flat(arguments), node)
    if name == "selectExpr":
        query = over(frame, place)
        query.columns = []
        for one in _flat(arguments):
            if isinstance(one, Text):
                expr, alias = expression_and_alias(interp, one, node)
                query.columns.append(Column(alias, expr, expr.place))
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name == "withColumnRenamed" and len(arguments) >= 2:
        query = over(frame, place)
        old, new = shown(first).lower(), shown(arguments[1]).lower()
        query.columns.append(Column(new, Expr("column", old, place=place), place))
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name == "drop":
        query = over(frame, place) if frame.query.columns else derived(frame, place)
        dropped = {shown(one).lower() for one in _flat(arguments)} | {
            one.expr.name for one in _flat(arguments) if isinstance(one, Col)
        }
        columns = [column for column in frame.query.columns if column.name != "*"]
        if columns and any(column.name in dropped for column in columns):
            query.columns = [
                column
                for column in [
                    Column("*", Expr("star", "*", place=place)),
                    *(Column(one.name, Expr("column", one.name, place=one.place), one.place) for one in columns),
                ]
                if column.name not in dropped
            ]
            inner = frame.query
            kept = [
                column
                for column in inner.columns
                if column.name not in dropped
                or any(
                    node_.kind == "column" and node_.name in dropped
                    for filter_ in inner.filters
                    for node_ in filter_.walk()
                )
            ]
            if len(kept) != len(inner.columns) and not inner.grouped:
                return Frame(
                    query=replace(inner, columns=kept, hidden=inner.hidden | dropped),
                    origins=frame.origins,
                    name=frame.name,
                )
        query.hidden = frozenset(dropped)
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name in {"join", "merge", "crossJoin"} and first is not None:
        return join(interp, frame, name, arguments, keywords, node)
    if name in {"union", "unionAll", "unionByName", "append", "concat"} and first is not None:
        others = [one for one in _flat(arguments) if isinstance(one, Frame)]
        query = Query(
            branches=[frame.query, *(other.query for other in others)],
            place=place,
            language="dataframe",
            streaming=frame.query.streaming,
        )
        return Frame(query=query, name=frame.name, origins=frame.origins)
    if name in {"subtract", "exceptAll", "except_", "intersect", "intersectAll"} and isinstance(first, Frame):
        query = over(frame, place)
        how = "anti" if name in {"subtract", "exceptAll", "except_"} else "semi"
        query.sources.append(Source("", first.name, first.query, how=how, place=place, kind="query"))
        return Frame(query=query, name=frame.name)
    if name in {"groupBy", "groupby", "groupByKey", "rollup", "cube", "group_by"}:
        return Grouped(frame=frame, keys=[column_of(interp, one, node) for one in _flat(arguments)])
    if name == "agg":
        return grouped_method(interp, Grouped(frame=frame), "agg", arguments, keywords, node)
    if name in {"orderBy", "sort", "sort_values", "order_by"}:
        query = derived(frame, place)
        terms = _flat(arguments) or _flat([keywords["by"]] if "by" in keywords else [])
        descending = constant(keywords.get("ascending")) is False
        query.order_by = [
            replace(
                order_of(column_of(interp, one, node)),
                descending=descending or order_of(column_of(interp, one, node)).descending,
            )
            for one in terms
        ]
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name == "limit" and first is not None:
        query = derived(frame, place)
        expr = as_expr(interp, first, node)
        query.limit = replace(expr, place=place)
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name == "distinct" or (
        name in {"dropDuplicates", "drop_duplicates", "unique"} and first is None and "subset" not in keywords
    ):
        query = derived(frame, place)
        query.distinct, query.distinct_place = True, place
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name in {"dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark", "unique"}:
        given = first if first is not None else keywords.get("subset", Value())
        query = derived(frame, place)
        if _names_all_columns(interp, node):
            query.distinct, query.distinct_place = True, place
            return Frame(query=query, origins=frame.origins, name=frame.name)
        by = _flat([given]) if isinstance(given, (Items, Text)) else [given]
        query.distinct_on = tuple(shown(one).lower() for one in by if not isinstance(one, Const))
        query.distinct_place = place
        query.within_watermark = name == "dropDuplicatesWithinWatermark"
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name == "sample" and constant(keywords.get("frac")) == 1:
        return frame  # all rows in another order
    if name in {"sample", "sampleBy", "randomSplit", "sample_frac"}:
        query = derived(frame, place)
        query.sample = Expr("call", name, place=place)
        seeded = {"seed", "random_state"} & set(keywords)
        position = {"sample": 3, "sampleBy": 3, "randomSplit": 2}.get(name, 9)
        query.sample_seeded = (
            bool(seeded)
            or len(arguments) >= position
            or (name == "sample" and len(arguments) == 2 and isinstance(constant(first), float))
        )
        result = Frame(query=query, origins=frame.origins, name=frame.name)
        return Items(items=[result, result, result]) if name == "randomSplit" else result
    if name == "withWatermark":
        query = derived(frame, place)
        query.watermark = shown(first).lower()
        return Frame(query=query, origins=frame.origins, name=frame.name)
    if name in {
        "createOrReplaceTempView",
        "createTempView",
        "createOrReplaceGlobalTempView",
        "registerTempTable",
        "createGlobalTempView",
    }:
        view = shown(first).lower()
        interp.builder.views[view] = frame.query
        if "Global" in name:
            interp.builder.views[f"global_temp.{view}"] = frame.query
        return Const()
    if name == "alias" and first is not None:
        return Frame(query=frame.query, origins=frame.origins, name=shown(first).lower())
    if name in {"transform", "pipe"} and isinstance(first, Function):
        result = interp.call_function(first, [frame, *arguments[1:]], keywords, node)
        return result if isinstance(result, Frame) else frame
    if name in {
        "show",
        "display",
        "printSchema",
        "explain",
        "info",
        "describe",
        "summary",
        "schema",
        "createOrReplaceView",
        "head_display",
    }:
        return Const()
    if name in {"zipWithIndex", "zipWithUniqueId"}:
        number = Expr("call", name.lower(), place=place, origins=frozenset({Origin("counter", name, place)}))
        query = over(frame, place)
        query.columns.append(Column("_index", number, place))
        return Frame(query=query, name=frame.name, origins=interp.origin("counter", name, node))
    if name in {"map", "mapPartitions", "flatMap", "mapInPandas", "applyInPandas", "mapValues", "apply", "applymap"}:
        return _mapped(interp, frame, name, first, node)
    if name == "foreachRDD" and first is not None:
        return dstreams.foreach_rdd(interp, frame, first, node)
    if name in {"foreach", "foreachPartition"}:
        return Const()
    if name == "writeTo":
        return Writer(frame=frame, kind="writeTo", state={"table": first if first is not None else Value()})
    if name in _ROWS:
        return _rows(interp, frame, name, arguments, node)
    written = writers.frame_write(interp, frame, name, arguments, keywords, node)
    if written is not None:
        return written
    if name in {"iterrows", "items", "rdd"}:
        return Value(origins=frame.origins)
    if name in {"pivot_table", "pivot", "melt", "explode", "stack", "unstack", "unpivot"}:
        return Frame(query=over(frame, place), name=frame.name)
    if name in {"max", "min", "sum", "mean", "any", "all", "nunique"}:
        return Value(origins=frame.origins)
    if name in {"nlargest", "nsmallest"}:
        return frame
    return (
        Frame(query=frame.query, origins=frame.origins, name=frame.name)
        if not name.startswith(("to_", "is", "get"))
        else Value(origins=frame.origins)
    )


def _select(interp: Interpreter, frame: Frame, items: list[Value], node: ast.AST) -> Frame:
    place = interp.place(node)
    query = over(frame, place)
    query.columns = []
    for one in items:
        expr = column_of(interp, one, node)
        name = one.name if isinstance(one, Col) and one.name else expr.name if expr.kind in {"column", "star"} else ""
        query.columns.append(Column(name.lower(), expr, expr.place))
    return Frame(query=query, origins=frame.origins, name=frame.name)


def _mapped(interp: Interpreter, frame: Frame, called: str, function: Value | None, node: ast.AST) -> Value:
    place = interp.place(node)
    query = over(frame, place)
    origins: Origins = NONE
    if isinstance(function, Function):
        result = interp.call_function(function, [Value(name="row")], {}, node)
        origins = frozenset(one for one in origins_of(result) if one.kind != "parameter")
        items = result.items if isinstance(result, Entries) else {}
        for name, value in items.items():
            query.columns.append(Column(name.lower(), as_expr(interp, value, node), place))
        if isinstance(result, Instance):
            for name, value in result.attributes.items():
                query.columns.append(Column(name.lower(), as_expr(interp, value, node), place))
        if isinstance(result, Items) and result.kind == "tuple" and result.items and called == "map":
            query.columns = [Column("", as_expr(interp, value, node), place) for value in result.items]
        elif not items and origins:
            query.columns.append(Column("", Expr("python", "map", place=place, origins=origins), place))
    return Frame(query=query, origins=frame.origins | origins, name=frame.name)


def _rows(interp: Interpreter, frame: Frame, name: str, arguments: list[Value], node: ast.AST) -> Value:
    one = name in {"first", "head"} and frame.query.limit is None
    asked = replace(frame.query, limit=Expr("literal", "1", value=1)) if one and frame.query.order_by else frame.query
    watermark = watermark_of(asked) if not frame.query.grouped or not frame.query.group_by else None
    if watermark is None and frame.query.grouped and not frame.query.group_by:
        maxima = [inner for column in frame.query.columns for inner in column.expr.calls("max")]
        if len(maxima) == 1 and len(frame.query.columns) == 1:
            tables = frame.query.tables()
            columns = maxima[0].columns()
            watermark = Origin(
                "watermark", f"MAX({columns[0] if columns else ''})", maxima[0].place, table=tables[0] if tables else ""
            )
    origins = frame.origins
    if watermark is not None:
        origins |= frozenset({watermark})
    interp.builder.add_query(frame.query)
    if name == "toPandas":
        query = replace(over(frame, interp.place(node)), language="pandas")
        return Frame(query=query, origins=origins, name=frame.name)
    rows = Value(origins=origins, name=f"{frame.name}.{name}()" if frame.name else interp.source(node)[:60])
    return made_of(rows, frame) if name in _ALL_ROWS and watermark is None else rows


_ALL_ROWS = frozenset(
    {"collect", "toLocalIterator", "to_dict", "iterrows", "itertuples", "to_records", "tolist", "values"}
)


def _names_all_columns(interp: Interpreter, node: ast.Call) -> bool:
    """Return whether rows are compared by all columns, or all but some: df.columns, [c for c in df.columns if …]."""
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "subset")]
    if not given:
        return False
    said = interp.source(given[0])
    if isinstance(given[0], ast.Name):
        said = next(iter(re.findall(rf"^[ \t]*{given[0].id}\s*=(.*)$", interp.job.text, re.MULTILINE)), "")
    return bool(re.search(r"\.columns\b(?!\s*\[)", said))
