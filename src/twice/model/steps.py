"""Steps and extracts: plain functions or SQL queries with declared inputs and one output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twice.errors import DefinitionError
from twice.model.tables import Read, Table

# What a function may ask for besides its inputs.
OFFERED = ("window", "spark")


@dataclass(frozen=True)
class Retry:
    """How often and how long a step is tried when the weather is bad."""

    attempts: int = 4
    wait_initial: float = 1.0
    wait_max: float = 60.0
    deadline: float = 3600.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise DefinitionError(f"Retry(attempts={self.attempts}): a step is tried at least once")


@dataclass(frozen=True, eq=False)
class Step:
    """One table brought up to date for a scope, from declared inputs."""

    name: str
    pipeline: str
    kind: Literal["python", "sql", "extract"]
    reads: Mapping[str, Read]
    writes: Table
    function: Callable[..., Any] | None = None
    query: str | None = None
    version: str = ""
    nondeterministic: str = ""
    depends_on_past: bool = False
    transient: tuple[type[BaseException], ...] = ()
    retry: Retry = field(default_factory=Retry)

    @property
    def wants(self) -> frozenset[str]:
        """Which of the offered arguments the function takes."""
        if self.function is None:
            return frozenset()
        return frozenset(inspect.signature(self.function).parameters) & frozenset(OFFERED)

    def __repr__(self) -> str:
        return f"Step({self.pipeline}.{self.name})"


def check_signature(step: Step) -> None:
    """Refuse a function whose parameters are not the declared inputs."""
    assert step.function is not None  # noqa: S101 - only called for functions
    parameters = inspect.signature(step.function).parameters
    names = {
        name for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.default is p.empty
    }
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    missing = [name for name in step.reads if name not in parameters]
    if missing:
        raise DefinitionError(
            f"step {step.name}: the function takes no argument {', '.join(missing)}, but reads= declares it: "
            f"def {step.name}({', '.join(step.reads)})"
        )
    unknown = sorted(names - set(step.reads) - set(OFFERED))
    if unknown:
        raise DefinitionError(
            f"step {step.name}: no input is declared for the argument {', '.join(unknown)}: "
            f'add reads={{"{unknown[0]}": some_table}}; only {" and ".join(OFFERED)} come without one'
        )
    if step.kind == "extract" and "window" not in parameters:
        raise DefinitionError(f"extract {step.name} must take the window: def {step.name}(window: Window)")
