"""`deterministic`: two clean runs agree."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import row_hashes
from twice.verify.few_rows import COMPILED
from twice.verify.trial import Seen, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from twice.verify.trial import Finding, Trial

    # By how a run is described: inputs that differ from the copied ones, and settings of Spark.
    Ways = Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]

_FILES = 7
_OTHER = {"spark.sql.shuffle.partitions": "7", "spark.sql.adaptive.enabled": "false", "spark.default.parallelism": "3"}
# With generated code, too, which Spark does not use for queries on a few rows.
_ADAPTIVE = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "3", **COMPILED}


class Deterministic:
    """Run again on empty tables: with shuffled input, in other numbers of partitions, with adaptive plans and without.

    A step that is not a function of its inputs fails: chance, the order of rows, the number of tasks. Two runs change
    all of that at once; if one of them differs, more runs show which change it was, or that none is needed.
    """

    name = "deterministic"
    promise = "a unit's rows depend on its inputs and its window alone"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit again in other ways; if one of them differs, find out which change makes the difference."""
        # By a hash and not by chance, so that the same seed shuffles alike.
        seed = F.lit(zlib.crc32(str(trial.seed).encode()))

        def shuffled(rows: DataFrame) -> DataFrame:
            return rows.repartition(_FILES).sortWithinPartitions(F.xxhash64(seed, *row_hashes(rows.schema)))

        def turned(rows: DataFrame) -> DataFrame:
            return rows.repartition(_FILES).sortWithinPartitions(F.desc(F.xxhash64(seed, *row_hashes(rows.schema))))

        inputs = trial.variants(f"shuffled-{trial.seed}", shuffled)
        # Any two rows change places in exactly one of the two orders.
        reverse = trial.variants(f"turned-{trial.seed}", turned)
        together: Ways = {
            "with shuffled input in 7 partitions": (inputs, _OTHER),
            "with shuffled input and adaptive execution": (reverse, _ADAPTIVE),
        }
        findings = _differences(self, trial, together)
        if findings:
            apart: Ways = {"again": ({}, {}), "with shuffled input": (inputs, {}), "with 7 partitions": ({}, _OTHER)}
            found = _differences(self, trial, apart)
            known = {finding.step for finding in found}
            findings = [*found, *(finding for finding in findings if finding.step not in known)]
        declared = [step.name for step in trial.steps if step not in trial.compared]
        aside = f"; not compared, because declared as not repeatable: {', '.join(declared)}" if declared else ""
        return Seen(f"{len(together) + 1} clean runs agree: {', '.join(together)}{aside}", findings)


def _differences(check: Deterministic, trial: Trial, ways: Ways) -> list[Finding]:
    """Run the unit in every way; return what differs from a clean run, each step with the first way that shows it."""
    windows = (trial.before, trial.unit) if trial.looks_back else (trial.unit,)
    against = trial.clean if trial.looks_back else trial.alone
    findings: list[Finding] = []
    for way, (inputs, settings) in ways.items():
        case = trial.case(inputs)
        with trial.sandbox.settings(settings):
            case.run(*windows)
        again = "two clean runs on the same input differ"
        why = Why(what=again if way == "again" else f"two clean runs differ: the second one ran {way}")
        known = {finding.step for finding in findings}
        more = trial.differences(check, case, against=against, names=("in a clean run", way), why=why)
        findings += [finding for finding in more if finding.step not in known]
    return findings
