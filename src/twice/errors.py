"""Every error that `twice` raises, in one tree.

TwiceError
├── UsageError            exit 2   an unknown option or name, a date off the grain
├── ConfigError           exit 2   twice.toml cannot be read or contradicts itself
├── DefinitionError       exit 2   a pipeline, table or step that could not keep its promise
├── EnvironmentProblem    exit 3   Java, a jar or a disk is missing
├── LedgerError           exit 3   the ledger cannot be read, or is newer than this package
├── PermanentError        exit 3   the same run would fail again
│   ├── StepFailed                 the step's own code raised, or returned something unusable
│   ├── WriteRefused               the step's own code tried to write
│   ├── NotDeterministic           the step reads the clock or a random source
│   ├── OutOfScope                 rows of another partition, or of none
│   ├── KeyViolation               duplicate or null business keys
│   ├── GateFailed                 a gate found something
│   ├── SchemaRefused              the result does not fit the table
│   ├── MergeRefused               two contents for one key, and no version decides
│   ├── LateData                   rows for a closed partition whose table does not take them
│   ├── NotSeparable               a partition computed alone is not what it is in its chunk
│   ├── StreamRefused              a checkpoint, a table and a source that do not belong together
│   └── StoreRefused               the table is not what its contract says
├── TransientError        exit 75  a transient error: the same run may well succeed later
│   ├── Conflict                   another writer changed the scope between claim and publish
│   ├── LedgerBusy                 other processes kept the ledger locked (it is a LedgerError too)
│   └── RetriesExhausted           still a transient error after the last attempt
├── ScopeHeld             exit 4   another run holds an overlapping scope
├── LeaseLost             exit 4   this run was replaced; it published nothing
└── Interrupted           exit 130 Ctrl-C

A message says what happened and to what; `unchanged` says what the error did not touch and
`next_step` what to run next.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Any


class TwiceError(Exception):
    """The root: everything that `twice` raises on purpose.

    >>> print(UsageError("no step 'x'", next_step="twice status shop"))
    no step 'x'
      next: twice status shop
    """

    exit_code = 3

    def __init__(self, message: str, *, unchanged: str = "", next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.unchanged = unchanged
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [self.message]
        if self.unchanged:
            lines.append(f"  unchanged: {self.unchanged}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.unchanged, self.next_step)


def _rebuild(kind: type[TwiceError], message: str, unchanged: str, next_step: str) -> TwiceError:
    return kind(message, unchanged=unchanged, next_step=next_step)


class UsageError(TwiceError):
    """An option or argument is invalid, on the command line or in a call."""

    exit_code = 2


class ConfigError(TwiceError):
    """`twice.toml` cannot be read, or contradicts itself."""

    exit_code = 2


class DefinitionError(TwiceError):
    """A pipeline, table, step or key that could not keep its promise."""

    exit_code = 2


class EnvironmentProblem(TwiceError):
    """The machine lacks something: Java, a jar, space on a disk."""


class LedgerError(TwiceError):
    """The ledger cannot be read or written, or is newer than this package."""


class PermanentError(TwiceError):
    """The same run would fail again; it is not retried."""


class StepFailed(PermanentError):
    """The step's own code raised, or returned something that is not a result."""


class WriteRefused(PermanentError):
    """The step's own code tried to write; the write was not carried out."""


class NotDeterministic(PermanentError):
    """The step's plan or code reads the clock, a random source, a row counter or the environment."""


class OutOfScope(PermanentError):
    """The result holds rows that the run does not own."""


class KeyViolation(PermanentError):
    """Duplicate or null business keys."""


class GateFailed(PermanentError):
    """A gate found something in the staged rows."""


class SchemaRefused(PermanentError):
    """The result's schema does not fit the table."""


class MergeRefused(PermanentError):
    """One key with two contents, and no version that decides."""


class LateData(PermanentError):
    """An input of a closed partition has changed, and the table is declared with `on_late="fail"`."""


class NotSeparable(PermanentError):
    """A step that mixes partitions was asked to compute several of them in one job."""


class StreamRefused(PermanentError):
    """A checkpoint, a table and a source that do not belong together: a query on them would lose or duplicate rows."""


class StoreRefused(PermanentError):
    """The live table is not what its contract says."""


class TransientError(TwiceError):
    """A transient error: the same run may well succeed later."""

    exit_code = 75


class Conflict(TransientError):
    """Another writer changed the scope between claim and publish."""


class LedgerBusy(TransientError, LedgerError):
    """Other processes kept the ledger locked for too long."""


class RetriesExhausted(TransientError):
    """Still a transient error after the last attempt."""


class ScopeHeld(TwiceError):
    """Another run holds an overlapping scope."""

    exit_code = 4


class LeaseLost(TwiceError):
    """This run's claim was taken over; it can no longer publish."""

    exit_code = 4


class Interrupted(TwiceError):
    """Stopped by Ctrl-C, or with the backfill that it was part of."""

    exit_code = 130


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the closest known one, if any.

    >>> did_you_mean("urll", ["url", "type"]), did_you_mean("x", ["url", "type"])
    ('. Did you mean url?', '')
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f". Did you mean {near[0]}?" if near else ""


def only_known(keys: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse keys of a section of the configuration that have no meaning there; `option.NAME` stands for any name."""
    free = tuple(name.removesuffix("NAME") for name in known if name.endswith(".NAME"))
    unknown = sorted(key for key in keys if key not in known and not (free and key.startswith(free)))
    if unknown:
        raise ConfigError(
            f"{where} has {', '.join(unknown)}, which twice does not know; it knows: {', '.join(sorted(known))}"
            f"{did_you_mean(unknown[0], known)}",
            unchanged="nothing was run",
        )
