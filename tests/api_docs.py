"""Write docs/api.md from the docstrings of what `twice` exports: `make docs-api`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import twice
from twice.ledger.runs import Runs

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"

# Every exported name has its place; errors make a table of their own. A tuple shares one entry.
SECTIONS: dict[str, list[str | tuple[str, ...]]] = {
    "Running": ["run", "backfill", "preview", "status", "undo", "run_stream", "open_ledger"],
    "Declaring": ["Pipeline", "Table", "Overwrite", "Merge", "InsertOnly", "Whole", "gates", "Retry"],
    "Time": [
        ("QuarterHour", "Hour", "Day", "Week", "Month", "Grain"),
        "Window",
        "Scope",
        "Duration",
        "days",
        "hours",
        "minutes",
    ],
    "Keys and joins": ["key_of", "key_hash", "key_sql", "as_of_join"],
    "Results": [
        "RunResult",
        "StepResult",
        "BackfillResult",
        "Status",
        "PipelineStatus",
        "StepStatus",
        "PartitionStatus",
        "UndoResult",
        "StreamResult",
        "Ledger",
    ],
}
# What of a class or module is for users.
MEMBERS = {
    "Pipeline": ["step", "sql", "extract", "effect", "stream"],
    "Table": ["window", "latest", "as_of"],
    "gates": ["not_null", "unique", "accepted", "range", "row_count", "row_count_change", "sql", "check"],
    "RunResult": ["exit_code", "to_json"],
    "StepResult": ["accepted_gates"],
    "BackfillResult": ["exit_code", "error"],
    "Status": ["counts", "steps", "effects"],
    "PipelineStatus": ["counts"],
    "StepStatus": ["counts", "stale"],
    "UndoResult": ["text"],
    "Ledger": ["runs.list", "runs.get"],
}
# Attributes of a class that are parts of it, with methods of their own.
PARTS = {"runs": Runs}
# Their fields are what they are for; of the others, the arguments.
FIELDS = {*SECTIONS["Results"]}


def page() -> str:
    """Return the whole page."""
    summary, example = _doc(twice)
    lines = [
        "# Python API",
        "",
        "Everything that `twice` exports. Generated from the docstrings by `make docs-api`.",
        "",
        *summary,
        *example,
        "",
    ]
    for title, entries in SECTIONS.items():
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += _entry((entry,) if isinstance(entry, str) else entry)
    return "\n".join([*lines, *_errors()]).rstrip() + "\n"


def listed() -> list[str]:
    """Return every name that has a place on the page."""
    names = [name for entries in SECTIONS.values() for entry in entries for name in _names(entry)]
    return sorted([*names, *(kind.__name__ for kind, _ in _tree(twice.TwiceError))])


def _names(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _entry(names: tuple[str, ...]) -> Iterator[str]:
    name, thing = names[-1], getattr(twice, names[-1])
    yield f"### {', '.join(f'`{each}`' for each in names)}"
    yield ""
    if name in FIELDS and dataclasses.is_dataclass(thing):
        yield from _code([f"{field.name}: {field.type}" for field in dataclasses.fields(thing) if field.init])
    elif name in FIELDS and hasattr(thing, "_fields"):
        kinds = {field: getattr(kind, "__forward_arg__", kind) for field, kind in thing.__annotations__.items()}
        yield from _code([f"{field}: {kinds[field]}" for field in thing._fields])
    elif len(names) == 1 and callable(thing) and name not in FIELDS:
        yield from _code([_call(name, thing)])
    text, example = _doc(thing)
    yield from (*text, *example, "")
    for member in MEMBERS.get(name, []):
        yield from _member(name, thing, member)


def _member(owner: str, thing: Any, name: str) -> Iterator[str]:
    *parts, method = name.split(".")
    member = inspect.getattr_static(PARTS[parts[-1]] if parts else thing, method)
    yield f"#### `{owner}.{name}`"
    yield ""
    if inspect.isfunction(member):
        yield from _code([_call(name, member)])
    text, example = _doc(member)
    yield from (*text, *example, "")


def _errors() -> Iterator[str]:
    yield from ("## Errors", "", *_doc(twice.TwiceError)[0], *_doc(twice.TwiceError)[1], "")
    yield from ("| Error | Exit code | Meaning |", "|---|---|---|")
    for kind, depth in _tree(twice.TwiceError):
        yield f"| {'&emsp;' * depth}`{kind.__name__}` | {kind.exit_code} | {' '.join(_doc(kind)[0])} |"


def _tree(kind: type[twice.TwiceError], depth: int = 0) -> Iterator[tuple[type[twice.TwiceError], int]]:
    """Walk the errors of twice.errors, each below the first of its parents."""
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__module__ == "twice.errors" and child.__base__ is kind:
            yield from _tree(child, depth + 1)


def _doc(thing: Any) -> tuple[list[str], list[str]]:
    """Return a docstring as text and as examples; lines after an example belong to the text."""
    text: list[str] = []
    example: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(thing) or ""):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith(">>>"):
            example += ["", "```pycon", *lines, "```"]
        else:
            text += [*([""] if text else []), *lines]
    return text, example


def _code(lines: list[str]) -> list[str]:
    return ["```text", *lines, "```", ""]


def _call(name: str, thing: Any) -> str:
    """Show how something is called: on one line, or one line for each argument."""
    signature = inspect.signature(thing)
    arguments, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            arguments.append("*")
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        arguments.append(_argument(parameter))
    returns = f" -> {signature.return_annotation}" if isinstance(signature.return_annotation, str) else ""
    returns = "" if returns == " -> None" else returns
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f"){returns}"])


def _argument(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = f": {parameter.annotation}" if isinstance(parameter.annotation, str) else ""
    default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
    return f"{stars}{parameter.name}{kind}{default}"


def _default(value: Any) -> str:
    # The text of a function or of a dataclass's factory is another in each version of Python.
    return repr(value) if isinstance(value, str | int | float | tuple | None) else "…"


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
