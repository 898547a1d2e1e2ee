"""`deterministic`: two clean runs agree."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from twice.content.rows import row_hashes
from twice.verify.few_rows import COMPILED
from twice.verify.trial import Seen, Why

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.verify.trial import Finding, Trial

_FILES = 7
_OTHER = {"spark.sql.shuffle.partitions": "7", "spark.sql.adaptive.enabled": "false", "spark.default.parallelism": "3"}
# With code that Spark generates, too, which queries on a few rows do without.
_ADAPTIVE = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "3", **COMPILED}


class Deterministic:
    """Run again on empty tables: as it is, with shuffled input, with other numbers of partitions, adaptive or not.

    A step that is not a function of its inputs fails: chance, the order of rows, the number of tasks.
    """

    name = "deterministic"
    promise = "a unit's rows depend on its inputs and its window alone"
    quick = True

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit again in other ways, until one of them differs."""

        def shuffled(rows: DataFrame) -> DataFrame:
            # By a hash and not by chance, so that the same seed shuffles alike.
            seed = zlib.crc32(str(trial.seed).encode())
            return rows.repartition(_FILES).sortWithinPartitions(F.xxhash64(F.lit(seed), *row_hashes(rows.schema)))

        windows = (trial.before, trial.unit) if trial.looks_back else (trial.unit,)
        against = trial.clean if trial.looks_back else trial.alone
        ways = {
            "again": ({}, {}),
            "with shuffled input": (trial.variants(f"shuffled-{trial.seed}", shuffled), {}),
            "with 7 partitions": ({}, _OTHER),
            "with adaptive execution": (trial.variants(f"shuffled-{trial.seed}", shuffled), _ADAPTIVE),
        }
        findings: list[Finding] = []
        for way, (inputs, settings) in ways.items():
            case = trial.case(inputs)
            with trial.sandbox.settings(settings):
                case.run(*windows)
            why = Why(what=f"two clean runs differ: the second one ran {way}" if way != "again" else
                      "two clean runs on the same input differ")  # fmt: skip
            known = {finding.step for finding in findings}
            findings += [
                finding
                for finding in trial.differences(self, case, against=against, names=("in a clean run", way), why=why)
                if finding.step not in known
            ]
        declared = [step.name for step in trial.steps if step not in trial.compared]
        aside = f"; not compared, because declared as not repeatable: {', '.join(declared)}" if declared else ""
        return Seen(f"{len(ways) + 1} clean runs agree: {', '.join(ways)}{aside}", findings)
