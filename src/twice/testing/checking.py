"""The checks of `twice verify` on input rows of a test's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from twice import config as configuration
from twice.engine.spark import session
from twice.errors import UsageError, did_you_mean
from twice.testing.trials import import_path
from twice.verify.checks import chosen
from twice.verify.literals import Literals, write_copies
from twice.verify.preparing import Inputs
from twice.verify.running import Report, Request, make_all, on_copies
from twice.verify.sandbox import Sandbox

if TYPE_CHECKING:
    from twice.config import Config
    from twice.model.pipelines import Pipeline
    from twice.verify.trial import Trial


def check(
    pipeline: Pipeline,
    unit: str,
    *checks: str,
    inputs: Mapping[str, Literals],
    steps: Sequence[str] = (),
    seed: int = 1,
    spark: SparkSession | None = None,
    config: Config | None = None,
    raise_on_failure: bool = False,
) -> Report:
    """Run checks of `twice verify` on rows that the test holds: by table, its columns as DDL and its rows.

    Without names, all checks run. Only the tables of a sandbox are written; Spark is started with the project's
    configuration, if none runs yet. With `raise_on_failure`, what a check finds is an AssertionError, and so is a
    check that cannot run.
    """
    wanted = chosen(checks, quick=False)
    found = config or _config(pipeline)
    spark = spark or SparkSession.getActiveSession() or session.start(found)
    place, command = import_path(pipeline), (pipeline.name, "--for", unit)
    request = Request(pipeline.grain.unit(unit, pipeline.zone), steps, checks, seed=seed, command=command, place=place)
    with Sandbox.open(found, spark) as sandbox:
        trial = on_copies(sandbox, pipeline, request, Inputs())
        _require(trial, inputs)
        trial.inputs = write_copies(session.fresh(spark, pipeline.zone.key), sandbox.folder / "inputs", inputs)
        report = make_all(wanted, trial, request)
    if raise_on_failure:
        require_passed(report)
    return report


def require_passed(report: Report) -> None:
    """Raise an AssertionError with what checks found, or why one was not run."""
    texts = ["\n".join(finding.lines()) for finding in report.findings]
    texts += [f"{each.check} was not run: {each.summary}" for each in report.outcomes if each.status == "not run"]
    if texts:
        raise AssertionError("\n\n".join(texts))


def _config(pipeline: Pipeline) -> Config:
    """Read the configuration of this folder, or else that of the pipeline's own."""
    files = [inspect.getfile(step.function) for step in pipeline.steps.values() if step.function is not None]
    here = Path.cwd()
    known = (folder for folder in (here, *(Path(file).parent for file in files)) if configuration.find(folder))
    return configuration.load(start=next(known, here))


def _require(trial: Trial, inputs: Mapping[str, Literals]) -> None:
    """Refuse inputs that no step reads, and steps without inputs."""
    own = {step.writes.name for step in trial.steps}
    read = {each.table.name for step in trial.steps for each in step.reads.values()} - own
    for name in inputs:
        if name not in read:
            raise UsageError(f"no step reads {name}; inputs are: {', '.join(sorted(read))}{did_you_mean(name, read)}")
    if missing := sorted(read - set(inputs)):
        raise UsageError(
            f'inputs lack {", ".join(missing)}: write inputs={{"{missing[0]}": ("id BIGINT, …", [(1, …)])}}'
        )
