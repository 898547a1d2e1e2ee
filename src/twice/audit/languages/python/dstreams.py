"""Spark's older streams: `ssc.socketTextStream(…)`, `KafkaUtils.createDirectStream(…)`, `stream.foreachRDD(f)`."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.languages.python import frames, names
from twice.audit.languages.python.values import Frame, Function, Value
from twice.audit.queries import Column

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_MADE = frozenset(
    {
        "createDirectStream", "createStream", "socketTextStream", "textFileStream", "binaryRecordsStream", "queueStream",
        "receiverStream",
    }
)  # fmt: skip
_WITH_TIME = 2


def unknown(
    interp: Interpreter, last: str, arguments: list[Value], node: ast.Call, owner: Value | None
) -> Value | None:
    """Return the stream that a call makes, or run what is done with each of its batches."""
    if last in _MADE:
        return frames.unknown_frame(last, interp.place(node))
    if last == "foreachRDD" and arguments:
        return foreach_rdd(interp, frames.taken_for_frame(owner or Value(), interp.place(node)), arguments[0], node)
    return None


def foreach_rdd(interp: Interpreter, stream: Frame, function: Value, node: ast.Call) -> Value:
    """Run a function with one batch of a stream, and with the time of the batch if it asks for it."""
    if not isinstance(function, Function) or function.node is None:
        return Value()
    wanted = [one.arg for one in (*function.node.args.posonlyargs, *function.node.args.args) if one.arg != "self"]
    batch = replace(stream, name=wanted[-1] if wanted else "rdd")
    timed = len(wanted) >= _WITH_TIME
    body = function.node.body if isinstance(function.node.body, list) else [function.node.body]
    used = timed and names.mentions(body, wanted[0])
    before = interp.state.inside, interp.state.batch_id
    interp.state.inside = "foreachBatch used" if used else "foreachRDD"
    interp.state.batch_id = wanted[0] if timed else "time"
    try:
        interp.call_function(function, [Value(name=wanted[0]), batch] if timed else [batch], {}, node)
    finally:
        interp.state.inside, interp.state.batch_id = before
    return Value()


def named(frame: Frame, columns: list[str]) -> Frame:
    """Give names to the values of rows that are tuples, if there are as many: `createDataFrame(rdd, ["id", "at"])`."""
    values = [column for column in frame.query.columns if column.name != "*"]
    if not columns or len(values) != len(columns) or any(column.name for column in values):
        return frame
    pairs = zip(columns, values, strict=True)
    query = replace(frame.query, columns=[Column(name, one.expr, one.place) for name, one in pairs])
    return replace(frame, query=query)
