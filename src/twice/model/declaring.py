"""The arguments that declare a step: inputs by name or in a list, a query in a file, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from twice.errors import DefinitionError, did_you_mean
from twice.model.steps import Step
from twice.model.tables import Read, Table

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# By the name that the step has for each; or a list, where each is named like its table.
Inputs = Mapping[str, Table | Read] | Sequence[Table | Read]


def check_name(kind: str, name: object) -> None:
    """Refuse a name that could not stand in a command, a path or an id."""
    if not _NAME.fullmatch(str(name)):
        raise DefinitionError(f"{kind} name {name!r}: use letters, digits, - and _, starting with a letter")


def check_declared(step: Step) -> None:
    """Refuse arguments that would only fail, or be misread, in the middle of a run."""
    writes: object = step.writes
    if not isinstance(writes, Table):
        raise DefinitionError(f"step {step.name}: writes= must be a Table, not {writes!r}")
    if writes.write is None:
        raise DefinitionError(
            f"step {step.name} writes {writes.name}, which has no write pattern: "
            "add write=Overwrite(), Merge(version=…), InsertOnly() or Whole() to the table"
        )
    if not isinstance(step.nondeterministic, str):
        raise DefinitionError(
            f"step {step.name}: nondeterministic={step.nondeterministic!r} must give the reason: "
            'nondeterministic="samples rows for a preview"'
        )
    if step.separable not in (None, True, False):
        raise DefinitionError(f"step {step.name}: separable={step.separable!r} must be True or False, or left out")
    if step.separable and step.depends_on_past:
        raise DefinitionError(
            f"step {step.name} builds on its own past, so its partitions cannot be computed together: "
            "leave separable=True out"
        )
    transient: object = step.transient
    kinds = transient if isinstance(transient, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise DefinitionError(
            f"step {step.name}: transient={step.transient!r} must be a tuple of exception classes: "
            "transient=(TimeoutError,)"
        )


def folder_of(frame: FrameType | None) -> Path:
    """Return the folder of the file whose code calls a function, by the function's frame; a notebook has no file."""
    caller = frame.f_back if frame else None
    file = caller.f_globals.get("__file__") if caller else None
    return Path(file).parent if file else Path.cwd()


def module_of(frame: FrameType | None) -> str:
    """Return the name of the module whose code calls a function, by the function's frame; empty if it has none."""
    caller = frame.f_back if frame else None
    return str(caller.f_globals.get("__name__", "")) if caller else ""


def read_query(step: str, path: Path, folder: Path) -> str:
    """Read the query of a step from a file."""
    file = folder / path  # an absolute path stays what it is
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        near = did_you_mean(file.name, (each.name for each in file.parent.glob("*.sql")))
        raise DefinitionError(f"step {step}: its query {file} {why}{near}") from None


def _by_table(reads: Inputs) -> Mapping[str, Table | Read]:
    """Return inputs by name; those of a list are named like the last part of their tables' names."""
    if isinstance(reads, Mapping):
        return reads
    listed: object = reads
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise DefinitionError(f'reads={reads!r} must be a list of tables, or give them names: reads={{"orders": …}}')
    found: dict[str, Table | Read] = {}
    for read in listed:
        if not isinstance(read, Table | Read):
            raise DefinitionError(f"reads= lists {read!r}: give a Table, or table.window(…), .latest(), .as_of(…)")
        table = read if isinstance(read, Table) else read.table
        name = table.id.parts[-1]
        if name in found:
            raise DefinitionError(
                f'reads= lists two inputs called {name}: name them, as in reads={{"{name}": …, "other_{name}": …}}'
            )
        if not name.isidentifier():
            raise DefinitionError(
                f'reads= lists {table.name}, and {name!r} cannot be an argument: name it, as in reads={{"orders": …}}'
            )
        found[name] = read
    return found


def named_reads(reads: Inputs) -> dict[str, Read]:
    """Return inputs by name, each with how much of it is read."""
    found: dict[str, Read] = {}
    for name, read in _by_table(reads).items():
        if not str(name).isidentifier():
            raise DefinitionError(f"an input is named {name!r}: use a Python identifier")
        if isinstance(read, Table):
            if read.partition is None and read.event_time is None:
                raise DefinitionError(
                    f"input {name}: {read.name} has no partition, so a rerun would read whatever it holds "
                    "by then. State that with .latest(), declare event_time= to cut it by that, or declare "
                    "valid=(…) and use .as_of(…)"
                )
            found[name] = read.window()
        elif isinstance(read, Read):
            found[name] = read
        else:
            raise DefinitionError(f"input {name} is {read!r}: give a Table, or table.window(…), .latest(), .as_of(…)")
    return {name: read.among(found.values()) for name, read in found.items()}
