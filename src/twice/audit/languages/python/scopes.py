"""Where the interpreter stands: the names in sight, the guards, loops and tasks around a statement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from twice.audit.languages.python.values import Function, Klass, Value, merged
from twice.audit.places import Place


@dataclass
class Scope:
    """Names and what they stand for; `parent` is the module around a function."""

    names: dict[str, Value] = field(default_factory=dict)
    parent: Scope | None = None
    returns: list[Value] = field(default_factory=list)
    function: str = ""

    def get(self, name: str) -> Value | None:
        """Look a name up, outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class TooMuch(Exception):
    """The file asks for more steps than one file may have."""


@dataclass
class State:
    """Where the interpreter stands: guards, loops, tasks, transactions."""

    guards: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)  # the branches around, each "line:test"
    loops: int = 0
    items: list[str] = field(default_factory=list)  # what the loops around call their items
    in_except: int = 0
    task: str = ""
    retries: int | None = None
    inside: str = ""  # foreachPartition, udf …
    functions: list[str] = field(default_factory=list)
    override: Place | None = None  # the call through which code of another file runs
    transaction: int | None = None
    batch_id: str = ""


class Chain(dict[str, Value]):
    """The names around a nested function, looked up when it runs."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope


def parent_of(function: Function, module: Scope) -> Scope:
    """Return the scope around a function: where it was made."""
    if isinstance(function.env, Chain):
        return function.env.scope
    return Scope(names=function.env, parent=module) if function.env else module


def joined(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Return the names after a branch: what one way or the other makes of them."""
    found = dict(one)
    for name, value in other.items():
        found[name] = merged(found[name], value) if name in found else value
    return found


def foreign(value: Value, scope: Scope) -> Value:
    """Mark what another file defines, so that it runs with the names of that file."""
    if isinstance(value, Klass):
        return replace(value, foreign=True, env=foreign_all(value.env, scope))
    if isinstance(value, Function):
        return replace(value, foreign=True, env=value.env if isinstance(value.env, Chain) else Chain(scope))
    return value


def foreign_all(values: dict[str, Value], scope: Scope) -> dict[str, Value]:
    """Mark all that another file defines."""
    return {name: foreign(value, scope) for name, value in values.items()}
