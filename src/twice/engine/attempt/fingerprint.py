"""A fingerprint of the code that made a partition.

It covers the step's function as syntax (comments and layout do not count), what the function
refers to in its own project (functions, classes, constants, modules, transitively), the SQL
text, and the declared `version=`. Installed packages are not part of it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

from twice.code.project import is_ours, unwrapped

if TYPE_CHECKING:
    from twice.ledger import Ledger
    from twice.model.steps import Step

_SCALARS = (str, bytes, int, float, complex, bool, type(None), Decimal, Fraction, date, time, timedelta, UUID)
_CONTAINERS = (tuple, frozenset, list, dict, set)


def fingerprint(step: Step) -> str:
    """Return a short text that changes when the step's code, or what it declares to read and write, does."""
    lines = [f"{name}={text}" for name, text in _texts(step).items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def parts(step: Step) -> dict[str, str]:
    """Return what a fingerprint is made of, each part by its name and a short hash, so that two can be compared."""
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in _texts(step).items()}


def keep_parts(ledger: Ledger, step: Step, code: str) -> None:
    """Record what a step's code is made of, so that a later change can be named."""
    if ledger.codes.parts(code) is None:
        ledger.codes.keep(code, parts(step))


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Describe what differs between two versions of a step's code, parts that are in both first."""
    both = [name for name in now if name in before and before[name] != now[name]]
    alone = [name for name in (*now, *before) if (name in now) != (name in before)]
    return tuple(dict.fromkeys(_shown(name) for name in (*both, *alone)))


def _texts(step: Step) -> dict[str, str]:
    step = step.shadow_of or step
    seen: dict[str, str] = {}
    if step.function is not None:
        _collect(step.function, seen)
    found = {"version": step.version, "sql": (step.query or "").strip(), "writes": _contract(step)}
    found |= {f"read {name}": f"{read.text}, event time {read.table.event_time}" for name, read in step.reads.items()}
    return found | dict(sorted(seen.items()))


def _shown(name: str) -> str:
    """Return what a part is: `shop.revenue:0` is a function, `shop.revenue:RATE` a constant that it uses."""
    known = {"version": "its version=", "sql": "its query", "writes": "the contract of its table"}
    if name in known:
        return known[name]
    if name.startswith("read "):
        return f"how it reads {name.removeprefix('read ')}"
    if name.startswith("module "):
        return name
    owner, colon, last = name.rpartition(":")
    if not colon:
        return f"class {name}"
    if last.lstrip("-").isdigit():
        return f"function {owner}"
    return f"{last} in {re.sub(r':-?[0-9]+$', '', owner)}"


def _contract(step: Step) -> str:
    table = step.writes
    return f"{table.write!r}, key {table.key}, {table.partition}, {table.dimensions}, lateness {table.lateness}"


def _collect(thing: Any, seen: dict[str, str]) -> None:
    thing = unwrapped(thing)
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"
    if isinstance(thing, types.FunctionType):
        name += f":{thing.__code__.co_firstlineno - _first_line(thing)}"  # lambdas of one scope share their name
    if name in seen:
        return
    seen[name] = _syntax(thing)
    if isinstance(thing, types.FunctionType):
        _collect_function(thing, name, seen)
    elif isinstance(thing, type):
        for member in vars(thing).values():
            inner = unwrapped(getattr(member, "__func__", member))
            if isinstance(inner, types.FunctionType):
                _collect_function(inner, name, seen)


def _collect_function(function: types.FunctionType, name: str, seen: dict[str, str]) -> None:
    """Follow what a function refers to: globals, what it closes over, and modules that it imports itself."""
    for global_name in _names(function.__code__):
        if global_name in function.__globals__:
            _follow(global_name, function.__globals__[global_name], name, seen)
        elif global_name in sys.modules:
            _follow(global_name, sys.modules[global_name], name, seen)
    for free_name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            _follow(free_name, cell.cell_contents, name, seen)
        except ValueError:  # not filled yet: the function refers to itself
            continue


def _first_line(function: types.FunctionType) -> int:
    """Return the line on which the enclosing definition begins, so that code above it does not count."""
    module = sys.modules.get(function.__module__)
    outer = function.__qualname__.split(".<locals>")[0].split(".")[0]
    code = getattr(getattr(module, outer, None), "__code__", None)
    return code.co_firstlineno if code is not None else function.__code__.co_firstlineno


def _follow(name: str, value: Any, owner: str, seen: dict[str, str]) -> None:
    if isinstance(value, functools.partial):
        seen.setdefault(f"{owner}:{name}", _stable([value.args, value.keywords]))
    value = unwrapped(value)
    if isinstance(value, types.ModuleType):
        _follow_module(value, seen)
    elif isinstance(value, types.FunctionType | type):
        module = sys.modules.get(value.__module__)
        if module is not None and is_ours(getattr(module, "__file__", None)):
            _collect(value, seen)
    elif isinstance(value, (*_SCALARS, *_CONTAINERS, Enum, re.Pattern)):
        seen.setdefault(f"{owner}:{name}", _stable(value))


def _follow_module(module: types.ModuleType, seen: dict[str, str]) -> None:
    """Take a module of the project as a whole, and the project's modules that it imports."""
    name = f"module {module.__name__}"
    if name in seen or not is_ours(getattr(module, "__file__", None)):
        return
    seen[name] = _module_syntax(module)
    for imported in _imports(module):
        if (inner := sys.modules.get(imported)) is not None:
            _follow_module(inner, seen)


def _imports(module: types.ModuleType) -> Iterator[str]:
    """Name the modules that a module's own text imports."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (module.__package__ or "").split(".")
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _stable(value: Any) -> str:
    """Format a constant so that its text is the same in every process; the order of a set is not."""
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(map(_stable, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_stable, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_stable(k)}:{_stable(v)}" for k, v in value.items()) + "}"
    return repr(value) if isinstance(value, (*_SCALARS, Enum, re.Pattern)) else type(value).__qualname__


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _syntax(thing: Any) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(thing))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        code = getattr(thing, "__code__", None)
        return hashlib.sha256(code.co_code).hexdigest() if code is not None else repr(type(thing))
    return _dump(tree)


def _module_syntax(module: types.ModuleType) -> str:
    try:
        return _dump(ast.parse(inspect.getsource(module)))
    except (OSError, TypeError, SyntaxError):
        return ""


def _dump(tree: ast.AST) -> str:
    """Format syntax without decorators and docstrings, which change no row."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = []
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            body[0].value.value = ""
    return ast.dump(tree)
