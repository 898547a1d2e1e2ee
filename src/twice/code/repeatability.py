"""What the code of a step reads that no rerun can repeat: the clock, random sources, the environment of its process.

The function is read, and what it refers to in its own project: functions, lambdas, user-defined functions, methods,
and constants of modules. Nothing is called, and installed packages are not read.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from twice.code.files import File, Function, imports, read
from twice.code.origins import origin_of
from twice.code.project import is_ours, layers

_WHY = {"clock": "reads the clock", "random": "is random", "environment": "depends on the process that runs it"}
_AT_IMPORT = frozenset({"clock", "random"})
_ENVIRONMENT = frozenset({"os.environ", "os.environb", "os.getenv"})
# What is called when an instance is created.
_MAKING = frozenset({"__init__", "__new__", "__post_init__"})
# Random unless they are given a seed.
_SEEDED = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState"})


@dataclass(frozen=True, order=True)
class Place:
    """One line that reads something that differs from run to run."""

    file: str
    line: int
    text: str
    why: str

    @property
    def where(self) -> str:
        """File and line, seen from the working directory."""
        path, here = Path(self.file), Path.cwd()
        return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{self.line}"


@dataclass(frozen=True)
class Reading:
    """What was found, and the functions and modules whose source could not be read."""

    found: tuple[Place, ...]
    unread: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_code(function: Callable[..., Any], *, environment: bool) -> Reading:
    """Read a function; `environment`: whether it may read the environment while it runs."""
    reader = _Reader(function, _AT_IMPORT if environment else frozenset(_WHY))
    reader.read(function)
    return Reading(tuple(sorted(reader.found)), tuple(sorted(reader.unread)))


@dataclass
class _Scope:
    """What the names in a piece of code stand for."""

    file: File
    names: Mapping[str, Any]
    imported: dict[str, str]
    bound: frozenset[str] = frozenset()

    def value(self, name: str) -> Any:
        if name in self.imported and name not in self.names:
            return _imported(self.imported[name])
        return None if name in self.bound else self.names.get(name)

    def full_names(self, parts: list[str]) -> list[str]:
        """Return the full names that a dotted name may have, as it is imported and as it is."""
        root, *rest = parts
        if root in self.bound:
            return []
        known = {self.imported.get(root), _full_name(self.names.get(root, getattr(builtins, root, None)))} - {None, ""}
        return [".".join([str(name), *rest]) for name in known]


class _Reader:
    def __init__(self, function: Callable[..., Any], kinds: frozenset[str]) -> None:
        self.found: set[Place] = set()
        self.unread: set[str] = set()
        self._package = str(function.__module__).split(".")[0]
        self._kinds = kinds
        self._todo: list[types.FunctionType] = []
        self._seen: set[object] = set()
        # Each with whether the code may make instances, or only has some that were made before.
        self._classes: dict[type, bool] = {}
        self._mentioned: set[str] = set()

    def read(self, function: Any) -> None:
        self._follow(function)
        if isinstance(function, types.FunctionType):
            self._add(function)  # also if it is installed
        while self._todo:
            while self._todo:
                self._function(self._todo.pop())
            # A method counts as called if its name is mentioned anywhere in what was read.
            for member in [member for each in self._classes for member in self._methods(each)]:
                self._add(member)

    def _add(self, function: types.FunctionType) -> None:
        if function.__code__ not in self._seen:
            self._seen.add(function.__code__)
            self._todo.append(function)

    def _function(self, function: types.FunctionType) -> None:
        code = function.__code__
        package = str(function.__globals__.get("__package__") or "")
        file = read(code.co_filename, package)
        nodes = file.function(code.co_name, code.co_firstlineno) if file else []
        if not file or not nodes:
            self.unread.add(f"{function.__module__}.{function.__qualname__}")
            return
        names = {**function.__globals__, **dict(_closed_over(function))}
        for node in nodes:
            inside = {name: full for each in ast.walk(node) for name, full in imports(each, package)}
            bound = frozenset(_bound(node)) - set(inside)
            scope = _Scope(file, {k: v for k, v in names.items() if k not in inside}, {**file.imports, **inside}, bound)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                self._scan(part, scope, running=True)
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                self._scan(default, scope)

    def _scan(self, node: ast.AST, scope: _Scope, *, running: bool = False) -> None:
        """Look at code that is called by the step or, if it is not running, was called when its module was imported."""
        kinds = self._kinds if running else _AT_IMPORT
        for parts, used, call in _uses(node):
            self._mentioned.update(parts[1:])
            if not parts[0]:
                continue
            asked = [_kind(name, call) for name in scope.full_names(parts)]
            found = {kind for kind in asked if kind is not None and kind in kinds}
            if found:
                text = ast.unparse(call or used)
                self.found.add(Place(scope.file.name, used.lineno, text, _WHY[min(found)]))
            elif running:
                self._refer(parts, scope)

    def _refer(self, parts: list[str], scope: _Scope) -> None:
        """Follow what a name stands for, as far as it is the project's own."""
        root, *rest = parts
        owner, value, file = None, scope.value(root), scope.file
        if root in file.constants and root not in scope.bound:
            self._scan(file.constants[root], _Scope(file, scope.names, file.imports))
        full = scope.imported.get(root, "")
        if value is not None and full and not isinstance(value, types.ModuleType):
            self._constant(sys.modules.get(full.rpartition(".")[0]), full.rpartition(".")[2])
        elif full and value is None and root not in scope.names:
            self._note_unloaded(full)
        for name in rest:
            if not isinstance(value, types.ModuleType | type) or not self._is_mine(value):
                break
            owner, value = value, getattr(value, name, None)
            if isinstance(owner, types.ModuleType):
                self._constant(owner, name)
        self._follow(value)

    def _constant(self, module: types.ModuleType | None, name: str) -> None:
        if module is None or not self._is_mine(module):
            return
        file = read(str(module.__file__), module.__package__ or "")
        if file is not None and name in file.constants:
            self._scan(file.constants[name], _Scope(file, vars(module), file.imports))

    def _note_unloaded(self, full: str) -> None:
        """A module of the project that is imported only when the step runs cannot be read before."""
        try:
            spec = importlib.util.find_spec(full.split(".", maxsplit=1)[0])
        except (ImportError, ValueError):
            return
        if spec is not None and spec.origin not in {None, "built-in", "frozen"} and is_ours(spec.origin):
            self.unread.add(f"{full}, which is imported when the step runs")

    def _follow(self, value: Any) -> None:
        for thing in layers(value):
            if isinstance(thing, types.MethodType):
                self._follow(thing.__func__)
            elif isinstance(thing, types.FunctionType):
                if self._is_mine(thing):
                    self._add(thing)
            elif isinstance(thing, list | tuple | set | frozenset | dict):
                for one in thing.values() if isinstance(thing, dict) else thing:
                    if isinstance(one, types.FunctionType) and self._is_mine(one):
                        self._add(one)
            elif not isinstance(thing, types.ModuleType):
                self._class(thing if isinstance(thing, type) else type(thing), makes=isinstance(thing, type))

    def _class(self, kind: type, *, makes: bool) -> None:
        for each in kind.__mro__:
            known = self._classes.get(each)
            if known or known is makes or not self._is_mine(each):
                continue
            self._classes[each] = makes
            if makes:
                self._class_body(each)

    def _class_body(self, kind: type) -> None:
        """Read the defaults of fields."""
        module = sys.modules[kind.__module__]
        file = read(str(module.__file__), module.__package__ or "")
        node = file.classes.get(kind.__qualname__) if file else None
        for statement in node.body if node else []:
            if file and isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                self._scan(statement.value, _Scope(file, vars(module), file.imports))

    def _methods(self, owner: type) -> Iterator[types.FunctionType]:
        for name, member in vars(owner).items():
            called = name in self._mentioned or (name.startswith("__") and name.endswith("__"))
            if not called or (name in _MAKING and not self._classes[owner]):
                continue
            inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            inner = inner.func if isinstance(inner, cached_property) else inner
            made = [thing for thing in layers(inner) if isinstance(thing, types.FunctionType)]
            # Code that dataclass and the like generate has no file.
            if not any(thing.__code__.co_filename == "<string>" for thing in made):
                yield from filter(self._is_mine, made)

    def _is_mine(self, thing: Any) -> bool:
        """Return whether a thing is of the project: of the step's own package, or not installed."""
        if isinstance(thing, types.ModuleType):
            name, file = thing.__name__, getattr(thing, "__file__", None)
        elif isinstance(thing, types.FunctionType):
            name, file = str(thing.__module__), thing.__code__.co_filename
        else:
            name = str(thing.__module__)
            file = getattr(sys.modules.get(name), "__file__", None)
        return file is not None and (name.split(".")[0] == self._package or is_ours(file))


def _kind(name: str, call: ast.Call | None) -> str | None:
    """Return what kind of origin a name is; a function that is only mentioned may be called with any arguments."""
    arguments = len(call.args) + len(call.keywords) if call else 2
    first = call.args[0].value if call and call.args and isinstance(call.args[0], ast.Constant) else ""
    parts = name.split(".")
    if ".".join(parts[:2]) in _ENVIRONMENT:
        return "environment"
    if call is not None and ((name in _SEEDED and not arguments) or name == "random.SystemRandom"):
        return "random"
    return origin_of(name, arguments, first if isinstance(first, str) else "")


def _uses(node: ast.AST) -> Iterator[tuple[list[str], ast.expr, ast.Call | None]]:
    """Yield every dotted name that is read, with its call if it is called; [""] is what has no name, such as f().x."""
    if isinstance(node, ast.Call):
        yield from ((parts, used, node if used is node.func else call) for parts, used, call in _uses(node.func))
        for each in [*node.args, *node.keywords]:
            yield from _uses(each)
    elif isinstance(node, ast.Name | ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            return
        attributes: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        yield [inner.id if isinstance(inner, ast.Name) else "", *attributes], node, None
        if not isinstance(inner, ast.Name):
            yield from _uses(inner)
    else:
        for each in _read_parts(node):
            yield from _uses(each)


def _read_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands inside a piece of code, without its annotations."""
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns"}:
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST))


def _bound(node: Function) -> Iterator[str]:
    """Yield the names that a function binds: arguments, variables, inner functions."""
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each is not node:
            yield each.name


def _closed_over(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet: the function refers to itself
            continue


def _full_name(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return ""


def _imported(full: str) -> Any:
    """Return what a full name stands for, if its module is loaded."""
    if full in sys.modules:
        return sys.modules[full]
    module, _, name = full.rpartition(".")
    return getattr(sys.modules.get(module), name, None)
