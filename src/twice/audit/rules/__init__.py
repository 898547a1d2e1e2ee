"""The rules, one per file: `TW301_append.py` holds the rule TW301.

A rule file has

- a module docstring: its documentation. The first line is the title; then what goes wrong on the second run, when it
  is right to ignore it, and what to write instead. `twice rule TW301` and docs/rules show it.
- `SEVERITY`: the default severity;
- `check(job)`: yields findings, made by `finding(...)`, which fills in code and severity.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from twice.audit.findings import Finding, Fix, Severity
from twice.audit.model import Job
from twice.audit.places import Place

_NAME = re.compile(r"(TW\d{3})_\w+")


@dataclass(frozen=True)
class Rule:
    """A rule as it was found."""

    code: str
    title: str
    documentation: str
    severity: Severity
    check: Callable[[Job], Iterator[Finding]]
    module: str


@cache
def rules() -> dict[str, Rule]:
    """Return all rules by code, in order."""
    found: dict[str, Rule] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        match = _NAME.fullmatch(module.name)
        if not match:
            continue
        loaded = import_module(f"{__name__}.{module.name}")
        documentation = inspect.cleandoc(loaded.__doc__ or "")
        title = documentation.partition("\n")[0].rstrip(".")
        found[match[1]] = Rule(match[1], title, documentation, loaded.SEVERITY, loaded.check, module.name)
    return found


def finding(
    module: str,
    place: Place,
    message: str,
    *,
    instead: str,
    with_twice: str = "",
    severity: Severity | None = None,
    fix: Fix | None = None,
) -> Finding:
    """Make a finding of the rule in `module` (pass `__name__`): its code comes from the file's name.

    `message`: what the second run of this very code does, in one sentence, with the names of this code.
    `instead`: the plain SQL or Spark form. `with_twice`: the same with this framework.
    """
    code, default = _known(module)
    return Finding(code, severity or default, place, message, instead=instead, with_twice=with_twice, fix=fix)


@cache
def _known(module: str) -> tuple[str, Severity]:
    """Return the code and the default severity of the rule in a module."""
    match = _NAME.search(module)
    return match[1] if match else module, getattr(import_module(module), "SEVERITY", Severity.WARNING)
