"""The profile of one partition's rows, taken while they are written instead of by reading them again.

Spark's observed metrics see every row that flows to the writer. What they cannot do is group: so this serves results of
one partition, whose keys are unique by the plan that makes them, or few enough that one set holds a hash of each.

A task that Spark runs twice may count its rows twice. The store counts the rows that it holds, from its own metadata:
unless both numbers agree, what was observed is not used, and the written rows are read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.sql import Observation
from pyspark.sql import functions as F

from twice.content.counts import most_rows
from twice.content.gateway import java_observation
from twice.content.profile import KEY_HASH, PartitionProfile, digest_of, hashed, key_hash, sums_of
from twice.content.rows import schema_fingerprint
from twice.model.framework import FRAMEWORK_COLUMNS
from twice.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The number of key hashes that a driver with one gigabyte can hold.
MOST_KEYS = 500_000
# Spark reports metrics a moment after the write has ended.
PATIENCE = 5.0
SILENT = threading.Event()
_SINCE = 4  # the first Spark whose observations show whether they have ended


@dataclass(frozen=True)
class Observed:
    """Rows that report their own profile once they are written."""

    rows: DataFrame
    observation: Observation
    violations: tuple[str, ...]
    schema: str

    def profile(self, written: int) -> PartitionProfile | None:
        """Return what was written; None if Spark did not count each of the written rows once, or a key repeats."""
        if not _has_ended(self.observation):
            return None
        seen = self.observation.get
        if seen["n"] != written or seen["keys"] != seen["distinct_keys"]:
            return None
        return PartitionProfile(
            digest=digest_of(seen, self.schema),
            null_keys=seen["nulls"],
            violations={name: seen[f"v{i}"] for i, name in enumerate(self.violations)},
        )


@dataclass(frozen=True)
class Counting:
    """Rows that report how many of a kind are among them once they are written."""

    rows: DataFrame
    observation: Observation

    def count(self) -> int | None:
        """Return how many were seen, which may count a task twice that ran twice; None if Spark has not reported."""
        if not _has_ended(self.observation):
            return None
        try:
            return int(self.observation.get["n"])
        except (KeyError, Py4JError):  # Spark left it out of the plan, as it may where it knows that no row comes
            return None


def counting(rows: DataFrame, kind: Column) -> Counting | None:
    """Return rows that are counted, where a condition holds, while they are written; None where that cannot be done."""
    if not _can_observe(rows):
        return None
    observation = Observation()
    return Counting(rows.observe(observation, F.count_if(kind).alias("n")), observation)


def observed(
    rows: DataFrame,
    *,
    key: Sequence[str],
    dimensions: Sequence[str] = (),
    violations: Mapping[str, Column] | None = None,
    unique: bool = False,
    most: int = MOST_KEYS,
) -> Observed | None:
    """Return rows that are profiled while they are written; None where that cannot be done.

    A key occurs once within its `dimensions`; `unique`: the plan proves that it does. `most`: up to how many rows keys
    are counted in one set.
    """
    violations = violations or {}
    if not _can_observe(rows):
        return None
    if any(name.lower().startswith("_twice_") and name not in FRAMEWORK_COLUMNS for name in rows.columns):
        return None  # it may be a name that is needed here
    counted = bool(key) and not unique
    if counted and ((bound := most_rows(rows)) is None or bound > most):
        return None
    asked, sums = hashed(rows.schema, key, violations), sums_of(violations)
    if counted:
        asked.append(key_hash(rows.schema, key, [*dimensions, *key]))
    sums["keys"] = f"count({KEY_HASH})" if counted else "0"
    sums["distinct_keys"] = f"size(collect_set({KEY_HASH}))" if counted else "0"
    observation = Observation()
    metrics = [F.expr(f"{text} AS {name}") for name, text in sums.items()]
    watched = rows.select("*", *asked).observe(observation, *metrics)
    kept = watched.select(*map(quote, rows.columns))
    return Observed(kept, observation, tuple(violations), schema_fingerprint(rows.schema))


def _can_observe(rows: DataFrame) -> bool:
    return not SILENT.is_set() and int(rows.sparkSession.version.split(".")[0]) >= _SINCE


def _has_ended(observation: Observation) -> bool:
    """Wait for Spark's report; one that does not come at all is not waited for again in this process."""
    if SILENT.is_set():
        return False
    asked = java_observation(observation)  # its public method waits for ever
    deadline = time.monotonic() + PATIENCE
    try:
        future = asked.future()
        while not future.isCompleted():
            if time.monotonic() > deadline:
                SILENT.set()
                return False
            time.sleep(0.002)
    except Py4JError:
        return False
    return True
