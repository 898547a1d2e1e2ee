"""What the statements of a file do to the names in sight."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twice.audit.expressions import Expr
from twice.audit.languages.python import names, orchestration
from twice.audit.languages.python.branching import branch
from twice.audit.languages.python.conditions import (
    asked_for_missing,
    creates_if_missing,
    ends,
    is_enumerate,
    opens_transaction,
    writes_lines,
)
from twice.audit.languages.python.evaluating import condition, item_of
from twice.audit.languages.python.operators import binary
from twice.audit.languages.python.scopes import Chain, Scope, foreign, foreign_all, joined
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Function,
    Instance,
    Items,
    Klass,
    Name,
    Text,
    Value,
    alternatives,
    as_fallback,
    constant,
    is_known,
    is_set,
    merged,
    origins_of,
    plain,
    with_origins,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_ALIASES = {"pyspark.sql.functions": "pyspark.sql.functions", "pandas": "pandas", "numpy": "numpy"}

# What `from … import *` brings of the modules that jobs import so.
_STARS: dict[str, tuple[str, ...]] = {
    "delta": ("DeltaTable",),
    "delta.tables": ("DeltaTable",),
    "pyspark.sql": ("SparkSession", "Window", "DataFrame", "Row"),
    "pyspark.sql.window": ("Window",),
    "datetime": ("datetime", "date", "timedelta", "timezone"),
}


def _import(interp: Interpreter, node: ast.Import) -> None:
    for alias in node.names:
        interp.job.imports |= {alias.name}
        if alias.name.startswith("pyspark"):
            interp.spark = True
        bound = alias.asname or alias.name.split(".")[0]
        dotted = _ALIASES.get(alias.name, alias.name) if alias.asname else alias.name.split(".")[0]
        interp.scope.names[bound] = Name(dotted=dotted, name=bound)


def _importfrom(interp: Interpreter, node: ast.ImportFrom) -> None:
    module = node.module or ""
    interp.job.imports |= {module}
    if module.startswith("pyspark"):
        interp.spark = True
    neighbour: Interpreter | None = None
    if not interp.quiet or interp.depth < 2:
        relative = "." * node.level + module
        neighbour = interp.load(relative)
    for alias in node.names:
        if alias.name == "*":
            if module.startswith("pyspark.sql.functions"):
                interp.star_functions = True
            for name in _STARS.get(module, ()):
                interp.scope.names[name] = Name(dotted=f"{module}.{name}", name=name)
            if neighbour is not None:
                interp.scope.names.update(foreign_all(neighbour.module.names, neighbour.module))
            continue
        bound = alias.asname or alias.name
        found = neighbour.module.names.get(alias.name) if neighbour is not None else None
        if found is None and neighbour is None:
            inner = (
                interp.load("." * node.level + (f"{module}." if module else "") + alias.name)
                if node.level or module
                else None
            )
            if inner is not None:
                found = Instance(kind="module", attributes=foreign_all(inner.module.names, inner.module), name=bound)
        if found is not None and not isinstance(found, Name):
            interp.scope.names[bound] = foreign(found, neighbour.module if neighbour is not None else interp.module)
        else:
            interp.scope.names[bound] = found or Name(dotted=f"{module}.{alias.name}", name=bound)


def _functiondef(interp: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    decorators = tuple(interp.source(one) for one in node.decorator_list)
    env = interp.scope.names if interp.scope is not interp.module else {}
    function = Function(
        node=node, env=dict(env) if interp.scope is not interp.module else {}, name=node.name, decorators=decorators
    )
    if interp.scope is not interp.module:
        function.env = Chain(interp.scope)
    interp.scope.names[node.name] = function
    interp.functions.append(function)
    orchestration.decorate(interp, function, node)


def _classdef(interp: Interpreter, node: ast.ClassDef) -> None:
    inner = Scope(parent=interp.scope)
    before, interp.scope = interp.scope, inner
    defined = len(interp.functions)
    try:
        interp.block(node.body)
    finally:
        interp.scope = before
    class_ = Klass(node=node, env=inner.names, name=node.name)
    bases = [interp.eval(base) for base in node.bases]
    for base in bases:
        if isinstance(base, Klass):
            for name, value in base.env.items():
                class_.env.setdefault(name, value)
    instance = Instance(kind=node.name, methods=class_, name="interp")
    if "__init__" in class_.env:
        _prepare(interp, class_, instance)
    for function in interp.functions[defined:]:
        if any("classmethod" in one or "staticmethod" in one for one in function.decorators):
            continue
        function.bound = instance
    interp.scope.names[node.name] = class_


def _prepare(interp: Interpreter, class_: Klass, instance: Instance) -> None:
    """Run the constructor once, so that methods without a caller know their attributes."""
    init = class_.env.get("__init__")
    if isinstance(init, Function) and isinstance(init.node, ast.FunctionDef):
        interp.called.add(id(init.node))
        interp.call_function(replace(init, bound=instance), [], {}, init.node, standalone=True)


def _return(interp: Interpreter, node: ast.Return) -> None:
    value = interp.eval(node.value) if node.value is not None else Const()
    interp.scope.returns.append(value)


def _expr(interp: Interpreter, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return
    value = interp.eval(node.value)
    if isinstance(node.value, (ast.Yield, ast.YieldFrom)):
        interp.scope.returns.append(value)


def _assign(interp: Interpreter, node: ast.Assign) -> None:
    value = interp.eval(node.value)
    for target in node.targets:
        interp.assign(target, value, node)


def _annassign(interp: Interpreter, node: ast.AnnAssign) -> None:
    if node.value is not None:
        interp.assign(node.target, interp.eval(node.value), node)


def _augassign(interp: Interpreter, node: ast.AugAssign) -> None:
    whole = interp.sums.get(id(node))
    if whole is None:
        whole = ast.copy_location(ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value), node)
        interp.sums[id(node)] = whole
    interp.assign(node.target, binary(interp, whole), node)


def _if(interp: Interpreter, node: ast.If) -> None:
    test = interp.eval(node.test)
    condition(interp, test, node.test)
    source = interp.source(node.test)
    guard = source if names.GUARDS.search(source) else ""
    before = dict(interp.scope.names)
    returned = len(interp.scope.returns)
    interp.state.guards.append(guard)
    with branch(interp, test, source, node, taken=True):
        interp.block(node.body)
    interp.state.guards.pop()
    left = ends(node.body)
    after_body = interp.scope.names
    asked = set(asked_for_missing(node.test))
    for name in asked:
        value = after_body.get(name)
        if value is not None and value is not before.get(name) and name in before and not is_known(before[name]):
            after_body[name] = merged(before[name], as_fallback(value))
    interp.scope.names = dict(before)
    interp.state.guards.append(f"not ({guard})" if guard and not node.orelse else guard)
    with branch(interp, test, source, node, taken=False):
        interp.block(node.orelse)
    interp.state.guards.pop()
    after_else = interp.scope.names
    if left and not ends(node.orelse):
        interp.scope.names = after_else
        if guard and interp.state.functions and not node.orelse and not isinstance(node.body[-1], ast.Raise):
            interp.state.guards[-1:] = [interp.state.guards[-1] or source] if interp.state.guards else [source]
    elif ends(node.orelse) and node.orelse:
        interp.scope.names = after_body
    elif constant(test) is False and isinstance(test, Const):
        interp.scope.names = after_else
    else:
        interp.scope.names = joined(after_body, after_else)
    values = interp.scope.returns[returned:]
    if len(values) == 2 and values[0] is not values[1]:
        interp.scope.returns[returned:] = [merged(values[0], values[1])]


def _for(interp: Interpreter, node: ast.For | ast.AsyncFor) -> None:
    over = interp.eval(node.iter)
    counted = node.iter.args[0] if is_enumerate(node.iter) else None
    if counted is not None and is_set(interp.eval(counted)) and writes_lines(node.body):
        interp.job.sets_iterated.append(Expr("python", interp.source(counted), place=interp.place(node.iter)))
    if isinstance(over, Items) and over.kind == "set":
        if writes_lines(node.body):
            interp.job.sets_iterated.append(Expr("python", interp.source(node.iter), place=interp.place(node.iter)))
        over = Items(items=[with_origins(one, interp.origin("set", interp.source(node.iter), node.iter)) for one in over.items] or [Value(origins=interp.origin("set", interp.source(node.iter), node.iter))])  # fmt: skip
    item = item_of(interp, over)
    if (
        any(isinstance(one, (Text, Items, Entries)) for one in alternatives(item))
        and isinstance(over, Items)
        and 1 < len(over.items) <= 6
    ):
        with _loop(interp, node.target):
            for one in over.items:
                interp.assign(node.target, one, node)
                interp.block(node.body)
    else:
        interp.assign(node.target, item, node)
        with _loop(interp, node.target):
            interp.block(node.body)
    interp.block(node.orelse)


def _while(interp: Interpreter, node: ast.While) -> None:
    test = interp.eval(node.test)
    condition(interp, test, node.test)
    asked = origins_of(test)
    if any(one.kind == "watermark" for one in asked):  # day after day from where the target ends until today
        interp.use(frozenset(one for one in asked if one.kind == "clock"), "input", node)
    with _loop(interp):
        interp.block(node.body)
    interp.block(node.orelse)


@contextmanager
def _loop(interp: Interpreter, target: ast.expr | None = None) -> Iterator[None]:
    """Know that what follows may run many times, or not at all."""
    before = dict(interp.scope.names)
    item = target.id if isinstance(target, ast.Name) else ""
    interp.state.loops += 1
    interp.state.items.append(item)
    yield
    interp.state.items.pop()
    interp.state.loops -= 1
    after = interp.scope.names
    # A text that starts empty and grows in a loop is what the loop makes of it.
    grown = {name: after[name] for name, value in before.items() if plain(value) == "" and _is_text(after.get(name))}
    interp.scope.names = joined(before, after) | grown


def _is_text(value: Value | None) -> bool:
    return any(isinstance(one, Text) and one.plain != "" for one in alternatives(value))


def _try(interp: Interpreter, node: ast.Try) -> None:
    before = dict(interp.scope.names)
    passes = creates_if_missing(node)
    interp.state.guards.extend(["already exists"] if passes else [])
    interp.block(node.body)
    if passes:
        interp.state.guards.pop()
    after = interp.scope.names
    for handler in node.handlers:
        interp.scope.names = dict(before)
        if handler.name:
            interp.scope.names[handler.name] = Value(name=handler.name)
        interp.state.in_except += 1
        interp.block(handler.body)
        interp.state.in_except -= 1
        if not ends(handler.body):
            after = joined(after, interp.scope.names)
    interp.scope.names = after
    interp.block(node.orelse)
    interp.block(node.finalbody)


def _with(interp: Interpreter, node: ast.With | ast.AsyncWith) -> None:
    opened = False
    before = interp.state.transaction
    for item in node.items:
        value = interp.eval(item.context_expr)
        source = interp.source(item.context_expr)
        if item.optional_vars is not None:
            interp.assign(item.optional_vars, value, node)
        if opens_transaction(source):
            interp.state.transaction = interp.builder.new_transaction()
            opened = True
        if isinstance(value, Instance) and value.kind.endswith("DAG"):
            interp.state.retries = interp.job.orchestration.retries
    interp.block(node.body)
    if opened:
        interp.state.transaction = before
        interp.builder.commit()


def _raise(interp: Interpreter, node: ast.Raise) -> None:
    if node.exc is not None:
        interp.use(interp.eval(node.exc), "log", node)


def _assert(interp: Interpreter, node: ast.Assert) -> None:
    interp.eval(node.test)
    source = interp.source(node.test)
    if "distinct" in source or "unique" in source.lower() or "duplicate" in source.lower():
        interp.job.checks_uniqueness = True


def _global(interp: Interpreter, _node: ast.Global) -> None:
    """Names are looked up outwards anyway."""


def _delete(interp: Interpreter, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            interp.scope.names.pop(target.id, None)


def _match(interp: Interpreter, node: ast.Match) -> None:
    interp.eval(node.subject)
    before = dict(interp.scope.names)
    after = before
    for case in node.cases:
        interp.scope.names = dict(before)
        interp.block(case.body)
        after = joined(after, interp.scope.names)
    interp.scope.names = after


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    return target


STATEMENTS: dict[type[ast.stmt], Callable[[Interpreter, Any], None]] = {
    ast.Import: _import,
    ast.ImportFrom: _importfrom,
    ast.FunctionDef: _functiondef,
    ast.AsyncFunctionDef: _functiondef,
    ast.ClassDef: _classdef,
    ast.Return: _return,
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _annassign,
    ast.AugAssign: _augassign,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Try: _try,
    getattr(ast, "TryStar", ast.Try): _try,  # Python 3.11
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Global: _global,
    ast.Delete: _delete,
    ast.Match: _match,
}
