"""How a write gets its mode: by position, or by the turn of a loop."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import Const, Text, Value, Writer, alternatives

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

# How pyspark calls the arguments after the first.
_POSITIONS: dict[str, tuple[str, ...]] = {
    "save": ("format", "mode", "partitionBy"),
    "saveAsTable": ("format", "mode", "partitionBy"),
    "parquet": ("mode", "partitionBy"),
    "orc": ("mode", "partitionBy"),
    "csv": ("mode",),
    "json": ("mode",),
    "start": ("format", "outputMode", "partitionBy"),
    "toTable": ("format", "outputMode", "partitionBy"),
}


def by_position(writer: Writer, name: str, arguments: list[Value]) -> dict[str, Value]:
    """Return what is given by position as if it were given by name; None says nothing."""
    if writer.kind == "writeTo" or (name in {"start", "toTable"}) != (writer.kind == "writeStream"):
        return {}
    given = zip(_POSITIONS.get(name, ()), arguments[1:], strict=False)
    return {key: value for key, value in given if not (isinstance(value, Const) and value.value is None)}


_FIRST_TURN = re.compile(
    r"""["'](overwrite|replace|w|wb)["']\s+if\s+([^\n]*\b\w*(first|idx|index|chunk|page|batch|count|number)\w*\b[^\n]*|not\s+\w+|\w+\s*==\s*[01])\s+else\s+["']a"""
    r"""|["'](append|a|ab)["']\s+if\s+[^\n]*(first|idx|index|chunk|page|batch|written|[>!]=?\s*[01])[^\n]*\s+else\s+["'](overwrite|replace|w|wb)["']""",
    re.IGNORECASE,
)


def first_turn_overwrites(interp: Interpreter, mode: Value | None) -> bool:
    """Return whether a loop overwrites in its first turn and appends in the others: `"overwrite" if i == 0 else …`."""
    texts = {one.plain for one in alternatives(mode) if isinstance(one, Text)}
    both = len(texts) > 1 and bool(texts & {"append", "a"}) and bool(texts & {"overwrite", "replace", "w"})
    return both and interp.state.loops > 0 and bool(_FIRST_TURN.search(interp.job.text))
