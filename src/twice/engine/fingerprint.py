"""A fingerprint of the code that made a partition.

It covers the step's function as syntax (comments and layout do not count), what the function
refers to in its own project (functions, classes, constants, modules, transitively), the SQL
text, and the declared `version=`. Installed packages are not part of it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twice.model.steps import Step

_CONSTANTS = (str, bytes, int, float, bool, type(None), tuple, frozenset, list, dict, set)


def fingerprint(step: Step) -> str:
    """Return a short text that changes when the step's code does."""
    seen: dict[str, str] = {}
    if step.function is not None:
        _collect(step.function, seen)
    parts = [f"version={step.version}", f"sql={' '.join((step.query or '').split())}"]
    parts += [f"{name}={text}" for name, text in sorted(seen.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _collect(thing: Any, seen: dict[str, str]) -> None:
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"
    if name in seen:
        return
    seen[name] = _syntax(thing)
    if isinstance(thing, types.FunctionType):
        for global_name in _names(thing.__code__):
            if global_name in thing.__globals__:
                _follow(global_name, thing.__globals__[global_name], name, seen)
        free = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        for free_name, cell in free:
            _follow(free_name, cell.cell_contents, name, seen)


def _follow(name: str, value: Any, owner: str, seen: dict[str, str]) -> None:
    if isinstance(value, types.ModuleType):
        if _is_ours(getattr(value, "__file__", None)):
            seen.setdefault(f"module {value.__name__}", _module_syntax(value))
    elif isinstance(value, types.FunctionType | type):
        module = sys.modules.get(value.__module__)
        if module is not None and _is_ours(getattr(module, "__file__", None)):
            _collect(value, seen)
    elif isinstance(value, _CONSTANTS):
        seen.setdefault(f"{owner}:{name}", _stable(value))


def _stable(value: Any) -> str:
    """Show a constant so that it reads the same in every process; sets have no order of their own."""
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(map(_stable, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_stable, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_stable(k)}:{_stable(v)}" for k, v in value.items()) + "}"
    return repr(value) if isinstance(value, _CONSTANTS) else type(value).__qualname__


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_ours(file: str | None) -> bool:
    """Tell whether a file belongs to the user's project: not installed, not Python's own, not twice."""
    if file is None:
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(
        path.is_relative_to(Path(root).resolve()) for root in (sys.base_prefix + "/lib", Path(__file__).parent.parent)
    )


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
    """Show syntax without decorators and docstrings, which change no row."""
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
