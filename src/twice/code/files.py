"""One file of Python, parsed once: its imports, its constants, and its functions by the line on which they begin."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class File:
    """What readers of the code need from a file; names are those of its module."""

    name: str
    imports: dict[str, str] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[int, list[Function]] = field(default_factory=dict)

    def function(self, name: str, line: int) -> list[Function]:
        """Return the functions of that name that begin on a line; lambdas share one."""
        found = self.functions.get(line, [])
        return [node for node in found if getattr(node, "name", "<lambda>") == name]


def read(name: str, package: str) -> File | None:
    """Read a file as it is now; None if there is no text, or none that can be parsed."""
    linecache.checkcache(name)
    return _parsed(name, package, "".join(linecache.getlines(name)))


@lru_cache(maxsize=1024)
def _parsed(name: str, package: str, text: str) -> File | None:
    if not text:
        return None
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    found = File(name)
    for statement in _at_import(tree.body):
        found.imports.update(imports(statement, package))
        if isinstance(statement, ast.Assign):
            found.constants.update(
                {each.id: statement.value for each in statement.targets if isinstance(each, ast.Name)}
            )
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            found.constants[statement.target.id] = statement.value
        elif isinstance(statement, ast.ClassDef):
            found.classes[statement.name] = statement
    for node in ast.walk(tree):
        if isinstance(node, Function):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            found.functions.setdefault(min([node.lineno, *(each.lineno for each in decorators)]), []).append(node)
    return found


def imports(statement: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a statement imports, each with the full name of what it stands for.

    >>> dict(imports(ast.parse("from datetime import datetime as dt").body[0], ""))
    {'dt': 'datetime.datetime'}
    >>> dict(imports(ast.parse("from .rates import convert").body[0], "jobs.shop"))
    {'convert': 'jobs.shop.rates.convert'}
    """
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0], alias.name if alias.asname else alias.name.split(".")[0]
    elif isinstance(statement, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
        home = [*above, *([statement.module] if statement.module else [])]
        for alias in statement.names:
            yield alias.asname or alias.name, ".".join([*home, alias.name])


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, also those under an `if` or a `try`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            handled = [one for each in getattr(statement, "handlers", []) for one in each.body]
            others = [one for name in ("orelse", "finalbody") for one in getattr(statement, name, [])]
            yield from _at_import([*statement.body, *handled, *others])
