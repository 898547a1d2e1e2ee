"""Run a function of the file with what it is given, and return what it returns."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.expressions import Origin
from twice.audit.languages.python import clients, declared, frames, names
from twice.audit.languages.python.scopes import Scope, parent_of
from twice.audit.languages.python.values import (
    NONE,
    Choice,
    Col,
    Const,
    Entries,
    Frame,
    Function,
    Instance,
    Items,
    Name,
    Origins,
    Text,
    Value,
    alternatives,
    as_fallback,
    merged,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_DEEPEST_CALL = 7
_WRITE_MODE = re.compile(r"mode|if_exists|disposition", re.IGNORECASE)


def call_function(
    interp: Interpreter,
    function: Function,
    arguments: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    standalone: bool = False,
) -> Value:
    """Run a function of the file with its arguments, and return what it returns."""
    inner = function.node
    if inner is None or id(inner) in interp.stack or interp.depth >= _DEEPEST_CALL:
        return Value(origins=_all_origins(arguments, keywords))
    scope = Scope(parent=parent_of(function, interp.module), function=function.name)
    override = interp.state.override
    if function.foreign and override is None:
        interp.state.override = interp.place(node)
    _bind(interp, scope, function, inner, arguments, keywords, standalone=standalone)
    if not function.foreign:
        interp.called.add(id(inner))
    before, interp.scope = interp.scope, scope
    module, interp.module = interp.module, interp.module
    guards, interp.state.guards = interp.state.guards, list(interp.state.guards)
    interp.stack.append(id(inner))
    interp.depth += 1
    if not isinstance(inner, ast.Lambda):
        interp.state.functions.append(function.name)
    try:
        if isinstance(inner, ast.Lambda):
            return interp.eval(inner.body)
        interp.block(inner.body)
    finally:
        if not isinstance(inner, ast.Lambda):
            interp.state.functions.pop()
        interp.depth -= 1
        interp.stack.pop()
        interp.state.guards = guards
        interp.scope = before
        interp.module = module
        interp.state.override = override
    if not scope.returns:
        return Const()
    found = scope.returns[0]
    for one in scope.returns[1:]:
        found = merged(found, one)
    if standalone and not interp.quiet:
        clocks = frozenset(origin for origin in origins_of(found) if origin.kind == "clock")
        if clocks and not isinstance(found, (Frame, Col)):
            interp.use(clocks, "returned", inner)
        for one in alternatives(found):
            if isinstance(one, Frame):
                interp.builder.add_query(one.query)
    return found


def _bind(
    interp: Interpreter, scope: Scope, function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    arguments: list[Value], keywords: dict[str, Value], *, standalone: bool,
) -> None:  # fmt: skip
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    given = list(arguments)
    static = any("staticmethod" in one for one in function.decorators)
    if function.bound is not None and positional and not static:
        given.insert(0, function.bound)
    defaults = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        if index < len(given):
            scope.names[argument.arg] = _named(given[index], argument.arg)
        elif argument.arg in keywords:
            scope.names[argument.arg] = _named(keywords[argument.arg], argument.arg)
        else:
            scope.names[argument.arg] = _missing(interp, argument, default, standalone=standalone)
    for argument, kw_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if argument.arg in keywords:
            scope.names[argument.arg] = _named(keywords[argument.arg], argument.arg)
        else:
            scope.names[argument.arg] = _missing(interp, argument, kw_default, standalone=standalone)
    if spec.vararg is not None:
        scope.names[spec.vararg.arg] = Items(items=given[len(positional) :], kind="tuple")
    if spec.kwarg is not None:
        rest = {name: value for name, value in keywords.items() if name not in scope.names}
        scope.names[spec.kwarg.arg] = Entries(items=rest, name=spec.kwarg.arg)


def _missing(interp: Interpreter, argument: ast.arg, default: ast.expr | None, *, standalone: bool) -> Value:
    value = _default(interp, default) if default is not None else None
    if standalone and plain(value) == "":  # an empty text only stands in for what the caller gives
        value = None
    if argument.arg in names.LOGICAL and (value is None or (isinstance(value, Const) and value.value is None)):
        interp.job.orchestration.uses_logical_date = True  # Airflow fills it in for every caller of the task
        return interp.parameter(argument.arg, argument, "logical date")
    if not standalone:
        if isinstance(value, Text) and _WRITE_MODE.search(argument.arg):
            return Choice(options=[value], name=argument.arg)  # the caller has not said how to write
        return value if value is not None else Value(name=argument.arg)
    annotation = interp.source(argument.annotation) if argument.annotation is not None else ""
    if argument.arg == "dbt" and value is None:
        return declared.dbt_object(interp)
    client = _annotated_client(interp, argument.annotation)
    if client is not None:
        return client
    if "DataFrame" in annotation:
        return frames.unknown_frame(argument.arg, interp.place(argument))
    if "SparkSession" in annotation or argument.arg == "spark":
        return Name(dotted="spark", name="spark")
    if argument.arg in names.LOGICAL:
        interp.job.orchestration.uses_logical_date = True
        return interp.parameter(argument.arg, argument, "logical date")
    if value is None or (isinstance(value, Const) and value.value is None):
        return interp.parameter(argument.arg, argument)
    if isinstance(value, (Text, Const, Entries, Items)) and not origins_of(value):
        return Choice(
            options=[value],
            name=argument.arg,
            origins=frozenset({Origin("parameter", argument.arg, interp.place(argument))}),
        )
    return interp.parameter(argument.arg, argument, fallback=origins_of(as_fallback(value)))


def _annotated_client(interp: Interpreter, annotation: ast.expr | None) -> Instance | None:
    """Return the client that an argument is said to be: `session: requests.Session`."""
    if not isinstance(annotation, (ast.Name, ast.Attribute)):
        return None
    named = interp.eval(annotation)
    return clients.made(named.dotted, [], {}) if isinstance(named, Name) else None


def _default(interp: Interpreter, node: ast.expr) -> Value:
    value = interp.eval(node)
    clocks = frozenset(replace(one, module_level=True) for one in origins_of(value) if one.kind == "clock")
    return Value(origins=clocks, name=value.name) if clocks else value


def _named(value: Value, name: str) -> Value:
    return value if value.name or isinstance(value, (Const, Text, Instance)) else replace(value, name=name)


def _all_origins(arguments: list[Value], keywords: dict[str, Value]) -> Origins:
    found: Origins = NONE
    for value in (*arguments, *keywords.values()):
        found |= origins_of(value)
    return found
