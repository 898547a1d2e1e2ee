"""Rows that are objects: SQLAlchemy's sessions and inserts, Django's managers, peewee's models."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from twice.audit.languages.python.lookups import is_object_looked_up
from twice.audit.languages.python.transactions import transaction_of
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Function,
    Instance,
    Items,
    Klass,
    Name,
    Value,
    alternatives,
    constant,
    frame_of,
    origins_of,
    plain,
)
from twice.audit.model import Mode, Target, Write
from twice.audit.vocabulary import is_audit_column, is_key_column

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_LIBRARY = re.compile(r"^(sqlalchemy|sqlmodel|flask_sqlalchemy|django|peewee|pony|tortoise|gino)\b")
_SESSION = re.compile(r"(^|[._])(session|sess|db|s|conn|connection|dbsession)\w*$|session", re.IGNORECASE)
_ADDS = frozenset(
    {"add", "add_all", "bulk_save_objects", "bulk_insert_mappings", "bulk_create", "create", "insert_many"}
)
_LOOKS_UP = frozenset({"get_or_create", "update_or_create", "create"})
_OF_MODEL = frozenset({"create", "bulk_create", "insert_many"})
_INSERTS = re.compile(r"^sqlalchemy\.(sql\.|sql\.expression\.)?insert$|^sqlalchemy\.dialects\.\w+\.(dml\.)?insert$")
_CONFLICT = {
    "on_conflict_do_nothing": Mode.INSERT_NEW, "on_conflict_do_update": Mode.UPSERT, "on_duplicate_key_update": Mode.UPSERT,
    "on_conflict_ignore": Mode.INSERT_NEW, "on_conflict_replace": Mode.UPSERT, "on_conflict": Mode.UPSERT,
}  # fmt: skip
_UNIQUE = re.compile(r"\bunique\s*=\s*True|UniqueConstraint\(|unique_together|UNIQUE\b")
_NUMBERED = re.compile(r"Integer|\bint\b|Serial|AutoField|Identity|Sequence|autoincrement\s*=\s*True")
_PRIMARY = re.compile(r"primary_key\s*=\s*True")


def unknown(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """session.add(order), session.bulk_insert_mappings(Order, rows), Order.objects.create(…), session.execute(insert(…))."""
    base = full.rpartition(".")[0]
    if last in _LOOKS_UP and base.removesuffix(".objects").rpartition(".")[2][:1].isupper():
        _note_values(interp, keywords, node)  # a model of another file
    if (last != "execute" and last not in _ADDS) or not any(_LIBRARY.match(one) for one in interp.job.imports):
        return None
    if last == "execute":
        insert = next((one for value in arguments[:1] for one in alternatives(value) if _is_insert(one)), None)
        if isinstance(insert, Instance):
            return _write(interp, insert.attributes.get("model"), _mode(insert), arguments, last, node)
        return None
    if last not in _OF_MODEL and not _SESSION.search(base):
        return None
    model = _model(interp, last, arguments, node)
    if model is None or _brings_key(model, arguments):
        return None
    looked_up = _looks_up(interp, model)
    if looked_up and (_names_rows(arguments) or not is_object_looked_up(interp, model.name, node)):
        return None
    mode = Mode.APPEND
    if constant(keywords.get("ignore_conflicts")) is True:
        mode = Mode.INSERT_NEW
    elif constant(keywords.get("update_conflicts")) is True:
        mode = Mode.UPSERT
    return _write(interp, model, mode, arguments, last, node, looked_up=looked_up)


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], _keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """insert(Order), of SQLAlchemy and its dialects."""
    if not _INSERTS.match(dotted) or not arguments:
        return None
    return Instance(kind="insert", attributes={"model": arguments[0]}, place=interp.place(node), name="insert")


def insert_method(insert: Instance, name: str) -> Value:
    """insert(Order).values(…).on_conflict_do_update(…)."""
    if name in _CONFLICT:
        return Instance(
            kind="insert", attributes={**insert.attributes, "mode": Const(value=_CONFLICT[name].value)}, name="insert"
        )
    return insert


def _note_values(interp: Interpreter, values: dict[str, Value], node: ast.Call) -> None:
    """Note the clocks and random numbers that are stored in the columns of an object."""
    for name, value in values.items():
        unsteady = frozenset(one for one in origins_of(value) if one.kind in {"clock", "random"})
        audits = is_audit_column(name)
        interp.use(unsteady, "audit" if audits else "key" if is_key_column(name) else "stored", node, column=name)


def _is_insert(value: Value) -> bool:
    return isinstance(value, Instance) and value.kind == "insert"


def _mode(insert: Instance) -> Mode:
    said = constant(insert.attributes.get("mode"))
    return Mode(said) if isinstance(said, str) else Mode.APPEND


def _model(interp: Interpreter, last: str, arguments: list[Value], node: ast.Call) -> Value | None:
    """Return the class whose rows are added; a bare `create(…)` of something else is none."""
    if last in _OF_MODEL and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        inner = owner.value if isinstance(owner, ast.Attribute) and owner.attr == "objects" else owner
        found = interp.eval(inner)
        is_manager = inner is not owner
        if isinstance(found, Klass):
            return found if is_manager or _is_peewee(interp) else None
        known = isinstance(found, Name) and found.dotted.rpartition(".")[2][:1].isupper()
        return found if known and (is_manager or _is_peewee(interp)) else None
    first = arguments[0] if arguments else None
    for one in alternatives(first):
        inner_value = one.items[0] if isinstance(one, Items) and one.items else one
        if isinstance(inner_value, Instance) and inner_value.methods is not None:
            return inner_value.methods
        if isinstance(inner_value, Klass) or (last == "bulk_insert_mappings" and isinstance(inner_value, Name)):
            return inner_value
    return None


def _is_peewee(interp: Interpreter) -> bool:
    return any(one.split(".")[0] == "peewee" for one in interp.job.imports)


def _brings_key(model: Value, arguments: list[Value]) -> bool:
    """Return whether a second run is refused: the data brings the key, or a column is unique."""
    if not isinstance(model, Klass) or model.node is None:
        return False
    source = ast.unparse(model.node)
    if _UNIQUE.search(source):
        return True
    given = {name for value in arguments for one in _objects(value) for name in one.attributes}
    for item in model.node.body:
        text = ast.unparse(item)
        if not _PRIMARY.search(text):
            continue
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        name = target.id if isinstance(target, ast.Name) else ""
        if name in given or not _NUMBERED.search(text):
            return True
    return False


def _objects(value: Value) -> list[Instance]:
    found: list[Instance] = []
    for one in alternatives(value):
        found.extend(inner for inner in ([one] if isinstance(one, Instance) else one.items if isinstance(one, Items) else []) if isinstance(inner, Instance))  # fmt: skip
    return found


def _names_rows(arguments: list[Value]) -> bool:
    """Return whether the file itself names what is added: the row for what is unknown."""
    given = [value for one in arguments for made in _objects(one) for value in made.attributes.values()]
    return bool(given) and all(isinstance(value, Const) or plain(value) is not None for value in given)


def _looks_up(interp: Interpreter, model: Value) -> bool:
    """Return whether the function asks the table for its rows, to add only what is missing."""
    name = model.name.rpartition(".")[2]
    current = interp.state.functions[-1] if interp.state.functions else ""
    around: list[Function] = [one for one in interp.functions if one.name == current and one.node is not None]
    text = "\n".join(ast.unparse(one.node) for one in around if one.node is not None) or interp.job.text
    # A query for the newest row does not show what is missing.
    newest = rf"\bquery\(\s*{re.escape(name)}\b[\w.]*\)\.order_by\([^\n]*\bdesc\b[^\n]*\.(first|limit)\("
    text = re.sub(newest, "", text) if name else text
    asks = rf"(query|select|exists|get|merge)\(\s*{re.escape(name)}\b|\b{re.escape(name)}\.(query|objects\.(filter|get|exclude)|get_or_none|select)\b"
    return bool(name and re.search(asks, text)) or "get_or_create" in text


def table_of(model: Value | None) -> str:
    """Return the table of a model: its own name for it, or one that two statements about the same model share."""
    name = plain(model.env.get("__tablename__")) if isinstance(model, Klass) else None
    return name.lower() if name else f"{{{model.name if model is not None else ''}.__tablename__}}"


def _write(
    interp: Interpreter, model: Value | None, mode: Mode, arguments: list[Value], api: str, node: ast.Call,
    *, looked_up: bool = False,
) -> Value:  # fmt: skip
    target = Target(table_of(model))
    for one in (one for value in arguments for one in _objects(value)):
        _note_values(interp, one.attributes, node)
    frame = frame_of(*(one for one in arguments if not isinstance(one, Entries)))
    write = Write(target, mode, interp.place(node), query=frame.query if frame else None, via="dbapi", api=api)
    write.looked_up = looked_up
    mark = (write.place, target.name, mode, "orm")
    if not interp.quiet and mark not in interp.writes_seen:
        interp.writes_seen.add(mark)
        interp.builder.add_items([write], interp.around(transaction=transaction_of(interp, "session", "session", {})))
    return Value(name=api)
