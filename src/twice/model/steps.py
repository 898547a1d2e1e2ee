"""Steps and extracts: plain functions or SQL queries with declared inputs and one output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from twice.errors import DefinitionError, did_you_mean
from twice.model.rates import Rate
from twice.model.tables import Read, Table

if TYPE_CHECKING:
    from twice.model.pipelines import Pipeline

# What a function may ask for besides its inputs.
OFFERED = ("window", "spark", "pace")


@dataclass(frozen=True)
class Retry:
    """How often and how long a step is retried after transient errors."""

    attempts: int = 4
    wait_initial: float = 1.0
    wait_max: float = 60.0
    deadline: float = 3600.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise DefinitionError(f"Retry(attempts={self.attempts}) must be 1 or more")
        if min(self.wait_initial, self.wait_max, self.deadline) < 0:
            raise DefinitionError(f"{self}: times are seconds, 0 or more")


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
    separable: bool | None = None
    transient: tuple[type[BaseException], ...] = ()
    retry: Retry = field(default_factory=Retry)
    rate: Rate | None = None
    parallel: int | None = None
    # The step whose work this one does on shadows of its tables.
    shadow_of: Step | None = None
    # The pipeline that declares it: a step is the only thing that a preview is given.
    declared_in: Pipeline | None = field(default=None, repr=False)

    @property
    def wants(self) -> frozenset[str]:
        """Which of the offered arguments the function takes."""
        if self.function is None:
            return frozenset()
        return frozenset(inspect.signature(self.function).parameters) & frozenset(OFFERED)

    def __repr__(self) -> str:
        return f"Step({self.pipeline}.{self.name})"

    def __getstate__(self) -> dict[str, Any]:
        # Spark may pickle a function of a notebook: the other steps of its pipeline do not go with it.
        return self.__dict__ | {"declared_in": None}


def check_named_after_tables(name: str, function: Callable[..., Any], reads: Mapping[str, Read]) -> None:
    """Refuse a function whose arguments are not named after the tables of a list of inputs."""
    if not inspect.isfunction(function):
        return  # refused with the signature
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    wanted = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    for each in wanted:
        if each not in reads and each not in OFFERED:
            tables = ", ".join(f"{one} ({read.table.name})" for one, read in reads.items()) or "none"
            raise DefinitionError(
                f"step {name}: reads= lists no table called {each}, which is an argument of the function; it lists "
                f"{tables}{did_you_mean(each, reads) or '.'} An argument has the last part of a table's name, "
                f'or the inputs are named: reads={{"{each}": …}}'
            )
    for each, read in reads.items():
        if each not in parameters:
            raise DefinitionError(
                f"step {name}: the function has no argument {each}, and reads= lists {read.table.name}"
                f"{did_you_mean(each, parameters)}"
            )


def check_signature(step: Step) -> None:
    """Refuse a function whose parameters are not the declared inputs."""
    assert step.function is not None  # noqa: S101 - only called for functions
    if not inspect.isfunction(step.function):
        raise DefinitionError(
            f"step {step.name} must be a plain function, got {step.function!r}: decorate def {step.name}(…)"
        )
    parameters = inspect.signature(step.function).parameters
    if taken := sorted(set(step.reads) & set(OFFERED)):
        raise DefinitionError(
            f"step {step.name}: an input cannot be named {taken[0]}, which the step gets from twice: "
            f'write reads={{"{taken[0]}_rows": …}}'
        )
    by_place = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_ONLY]
    if by_place:
        raise DefinitionError(
            f"step {step.name}: inputs are given by name, so {', '.join(by_place)} cannot be positional-only: "
            "leave the / out"
        )
    open_ended = [name for name, p in parameters.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = {name for name, p in parameters.items() if name not in open_ended and p.default is p.empty}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    missing = [name for name in step.reads if name not in parameters or name in open_ended]
    if missing and not takes_any:
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
    if "pace" in parameters and step.rate is None:
        raise DefinitionError(
            f'step {step.name} takes pace, but declares no rate: write @….extract(…, rate="5/s") and call pace() '
            "before each call of the source"
        )
    if step.kind == "extract" and "window" not in parameters:
        raise DefinitionError(f"extract {step.name} must take the window: def {step.name}(window: Window)")
