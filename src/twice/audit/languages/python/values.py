"""What a Python expression stands for, as far as the file shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twice.audit.expressions import Expr, Order, Origin
from twice.audit.places import NOWHERE, Place
from twice.audit.queries import Query

Origins = frozenset[Origin]
NONE: Origins = frozenset()


@dataclass(eq=False)
class Value:
    """Something unknown; `origins` say where it comes from, `name` how it is written."""

    origins: Origins = NONE
    name: str = ""


@dataclass(eq=False)
class Const(Value):
    """A number, a truth value or None."""

    value: object = None


@dataclass(eq=False)
class Piece:
    """A known part of a text, with the line of the file for each of its lines."""

    text: str
    lines: list[int]


@dataclass(eq=False)
class Text(Value):
    """A text: known pieces and values in between."""

    pieces: list[Piece | Value] = field(default_factory=list)
    column: int = 1

    @property
    def plain(self) -> str | None:
        """The text, if it is known entirely."""
        found = [piece.text for piece in self.pieces if isinstance(piece, Piece)]
        return "".join(found) if len(found) == len(self.pieces) else None

    @property
    def shown(self) -> str:
        """The text with `{name}` for what is not known."""
        return "".join(
            piece.text if isinstance(piece, Piece) else "{" + (piece.name or "…") + "}" for piece in self.pieces
        )


@dataclass(eq=False)
class Items(Value):
    """A list, tuple or set with known items."""

    items: list[Value] = field(default_factory=list)
    kind: str = "list"


@dataclass(eq=False)
class Entries(Value):
    """A dictionary with known texts as keys."""

    items: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False)
class Name(Value):
    """Something imported or built in: its full dotted name."""

    dotted: str = ""


@dataclass(eq=False)
class Function(Value):
    """A function of this file or of a neighbour."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None = None
    env: dict[str, Value] = field(default_factory=dict)
    foreign: bool = False  # defined in another file
    bound: Value | None = None
    decorators: tuple[str, ...] = ()
    task: str = ""
    given: dict[str, Value] = field(default_factory=dict)  # arguments that partial(…) has bound
    ahead: list[Value] = field(default_factory=list)  # those that it has bound by position


@dataclass(eq=False)
class Klass(Value):
    """A class of this file."""

    node: ast.ClassDef | None = None
    env: dict[str, Value] = field(default_factory=dict)
    foreign: bool = False


@dataclass(eq=False)
class Instance(Value):
    """An object: of a class of this file, or of something imported (`kind` its dotted name)."""

    kind: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)
    methods: Klass | None = None
    place: Place = NOWHERE


@dataclass(eq=False)
class Frame(Value):
    """A DataFrame."""

    query: Query = field(default_factory=Query)


@dataclass(eq=False)
class Rows(Value):
    """Something unknown that was made of a DataFrame: what a helper returns for it, a list of its rows, one row."""

    frame: Frame = field(default_factory=Frame)


@dataclass(eq=False)
class Grouped(Value):
    """groupBy(...) before its aggregation."""

    frame: Frame = field(default_factory=Frame)
    keys: list[Expr] = field(default_factory=list)
    pivot: bool = False


@dataclass(eq=False)
class Writer(Value):
    """df.write, df.writeTo(...), df.writeStream: what was said so far."""

    frame: Frame = field(default_factory=Frame)
    state: dict[str, Value] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    partition: tuple[str, ...] = ()
    kind: str = "write"  # write, writeTo, writeStream
    explicit: bool = False


@dataclass(eq=False)
class Reader(Value):
    """spark.read, spark.readStream."""

    state: dict[str, Value] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    stream: bool = False


@dataclass(eq=False)
class Col(Value):
    """A Column of a DataFrame, and what that reads where it is written `df["a"]`."""

    expr: Expr = field(default_factory=lambda: Expr("other"))
    read: Query | None = None


@dataclass(eq=False)
class WindowSpec(Value):
    """Window.partitionBy(...).orderBy(...)."""

    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[Order, ...] = ()


@dataclass(eq=False)
class MergeBuilder(Value):
    """DeltaTable.merge(...) before execute()."""

    target: str = ""
    source: Frame | None = None
    on: Expr | None = None
    whens: list[Any] = field(default_factory=list)
    target_alias: str = ""
    source_alias: str = ""
    place: Place = NOWHERE


@dataclass(eq=False)
class Choice(Value):
    """One of several, depending on a branch."""

    options: list[Value] = field(default_factory=list)


def origins_of(value: Value | None, depth: int = 0) -> Origins:
    """Return where all parts of a value come from."""
    if value is None or depth > 6:
        return NONE
    found = value.origins
    inner: Iterable[Value] = ()
    if isinstance(value, Text):
        inner = (piece for piece in value.pieces if isinstance(piece, Value))
    elif isinstance(value, Items):
        inner = value.items
    elif isinstance(value, Entries):
        inner = value.items.values()
    elif isinstance(value, Choice):
        inner = value.options
    elif isinstance(value, Col):
        return found | frozenset(origin for node in value.expr.walk() for origin in node.origins)
    for one in inner:
        found |= origins_of(one, depth + 1)
    return found


def frame_of(*values: Value | None, depth: int = 0) -> Frame | None:
    """Return the first DataFrame that values are, are made of, or hold."""
    for value in values:
        for one in alternatives(value):
            if isinstance(one, Frame):
                return one
            if isinstance(one, Rows):
                return one.frame
            inner = one.items if isinstance(one, Items) else one.items.values() if isinstance(one, Entries) else ()
            found = frame_of(*list(inner)[:12], depth=depth + 1) if inner and depth < _DEEPEST else None
            if found is not None:
                return found
    return None


_DEEPEST = 3


def made_of(value: Value, *sources: Value | None) -> Value:
    """Return an unknown value that remembers the DataFrame that it was made of, if there is one."""
    frame = frame_of(*sources) if type(value) is Value else None
    return Rows(origins=value.origins, name=value.name, frame=frame) if frame is not None else value


def with_origins(value: Value, origins: Origins) -> Value:
    """Return a value that also comes from there."""
    return replace(value, origins=value.origins | origins) if origins - value.origins else value


def as_fallback(value: Value) -> Value:
    """Mark the clocks in a value as a mere default."""
    if isinstance(value, Choice):
        return replace(value, options=[as_fallback(one) for one in value.options])
    if isinstance(value, Text):
        pieces = [piece if isinstance(piece, Piece) else as_fallback(piece) for piece in value.pieces]
        value = replace(value, pieces=pieces)
    changed = frozenset(replace(one, fallback=True) if one.kind == "clock" else one for one in value.origins)
    return replace(value, origins=changed) if changed != value.origins else value


def alternatives(value: Value | None) -> Sequence[Value]:
    """Return all that a value may be."""
    if isinstance(value, Choice):
        return [one for option in value.options for one in alternatives(option)]
    return (value,) if value is not None else ()


def merged(one: Value, other: Value) -> Value:
    """Return a value that is one or the other; a clock beside a parameter is its fallback."""
    if one is other:
        return one
    if isinstance(one, Const) and isinstance(other, Const) and one.value == other.value:
        return one
    mine, theirs = origins_of(one), origins_of(other)
    if _given(mine) and not _given(theirs) and not _asks_clock(mine):
        other = as_fallback(other)
    elif _given(theirs) and not _given(mine) and not _asks_clock(theirs):
        one = as_fallback(one)
    options: list[Value] = []
    for value in (*alternatives(one), *alternatives(other)):
        if not any(_equal(value, known) for known in options):
            options.append(value)
        if len(options) >= 8:
            break
    return options[0] if len(options) == 1 else Choice(options=options, name=one.name or other.name)


def _equal(one: Value, other: Value) -> bool:
    """Compare what is known; everything else is only equal to itself."""
    if isinstance(one, Const) and isinstance(other, Const):
        return one.value == other.value and type(one.value) is type(other.value)
    if isinstance(one, Text) and isinstance(other, Text):
        return one.plain is not None and one.plain == other.plain
    if type(one) is Value and type(other) is Value:
        return one.name == other.name and one.origins == other.origins
    return one is other


def _asks_clock(origins: Origins) -> bool:
    return any(origin.kind == "clock" and not origin.fallback for origin in origins)


def _given(origins: Origins) -> bool:
    return any(origin.kind == "parameter" for origin in origins)


def plain(value: Value | None) -> str | None:
    """Return the text of a value that is a known text, or the first of several."""
    for one in alternatives(value):
        if isinstance(one, Text):
            return one.plain
        if isinstance(one, Const) and isinstance(one.value, (str, int)) and not isinstance(one.value, bool):
            return str(one.value)
    return None


def shown(value: Value | None) -> str:
    """Return the text of a value, with `{name}` for what is not known."""
    for one in alternatives(value):
        if isinstance(one, Text):
            return one.shown
        if isinstance(one, Const):
            return str(one.value)
        return "{" + one.name + "}" if one.name else ""
    return ""


def column_name(value: Value | None) -> str:
    """Return the name of a column: the text, or the constant that stands for it (`Columns.order_id`)."""
    text = plain(value)
    if text is None and value is not None and _CONSTANT.fullmatch(value.name):
        text = value.name.rpartition(".")[2]
    return (text or "").lower()


_CONSTANT = re.compile(r"[A-Z]\w*(\.\w+)+|[A-Z][A-Z0-9_]+")


def constant(value: Value | None) -> object:
    """Return a number, truth value or text that is known."""
    for one in alternatives(value):
        if isinstance(one, Const):
            return one.value
        if isinstance(one, Text):
            return one.plain
    return None


def is_known(value: Value) -> bool:
    """Return whether a value is one text or number, whatever branch is taken."""
    return (
        isinstance(value, (Text, Const))
        and not isinstance(value, Choice)
        and not (isinstance(value, Const) and value.value is None)
    )


def is_set(value: Value) -> bool:
    """Return whether a value may be a set."""
    return any(isinstance(one, Items) and one.kind == "set" for one in alternatives(value))
