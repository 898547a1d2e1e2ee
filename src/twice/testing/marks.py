"""What `@pytest.mark.twice(…)` means: which checks of which units, run on copies that they share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from twice.engine.run import Runtime
from twice.engine.spark.jvm import active
from twice.engine.stores import Stores, spark_settings
from twice.errors import TwiceError
from twice.ledger import open_ledger
from twice.loading import find_pipeline
from twice.testing.sessions import require_jars
from twice.testing.trials import Testable, config_for, failure, import_path, pipeline_of, trial_of, unit_of
from twice.verify.checks import chosen
from twice.verify.running import Request, make, prepared
from twice.verify.sandbox import Sandbox
from twice.verify.sessions import sandboxed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import Config
    from twice.model.pipelines import Pipeline
    from twice.verify.trial import Trial

_FORM = '@pytest.mark.twice(pipeline, dates=["2026-04-25"])'
_KNOWN = {"dates", "checks", "steps"}


@dataclass(frozen=True)
class Asked:
    """One test of a marked function: a check of a unit."""

    what: Testable | str
    date: str
    check: str
    steps: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """How pytest names the test."""
        return f"{self.date}-{self.check}"

    @property
    def unit(self) -> tuple[object, ...]:
        """What the checks of one trial have in common."""
        return (self.what if isinstance(self.what, str) else id(self.what), self.date, self.steps)


def asked(mark: pytest.Mark, test: str, *, quick: bool) -> list[Asked]:
    """Read the marker of a test: each date with each check."""
    unknown = sorted(set(mark.kwargs) - _KNOWN)
    if len(mark.args) != 1 or unknown or "dates" not in mark.kwargs:
        wrong = (
            f"{unknown[0]} is not one of {', '.join(sorted(_KNOWN))}" if unknown else "it names a pipeline and dates"
        )
        raise _refused(test, f"{wrong}: write {_FORM}")
    dates, names, steps = (_texts(mark, name, test) for name in ("dates", "checks", "steps"))
    if not dates:
        raise _refused(test, f"there are no dates: write {_FORM}")
    try:
        checks = [check for check in chosen(names, quick=False) if check.quick or not quick]
    except TwiceError as error:
        known = ", ".join(check.name for check in chosen((), quick=False))
        raise _refused(test, f"{error.message} (there are: {known})") from None
    return [Asked(mark.args[0], day, check.name, steps) for day in dates for check in checks]


def _texts(mark: pytest.Mark, name: str, test: str) -> tuple[str, ...]:
    value = mark.kwargs.get(name) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _refused(test, f'{name}={value!r} must be a list: {name}=["…"]')
    return tuple(each.isoformat() if isinstance(each, date | datetime) else str(each) for each in value)


def _refused(test: str, why: str) -> pytest.Collector.CollectError:
    return pytest.Collector.CollectError(f"the marker twice of {test} cannot be read: {why}")


@dataclass
class Trials:
    """The trial that the checks of a module work on: one is open at a time, as Spark knows one sandbox at a time."""

    spark: SparkSession
    config: Config
    inputs: Mapping[str, Any] | None = None
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)
    _unit: tuple[object, ...] | None = None
    _trial: Trial | None = None
    # Units that cannot be run: reported by one test, not by each of their checks.
    _broken: dict[tuple[object, ...], str] = field(default_factory=dict)

    def judge(self, test: Asked) -> None:
        """Run a check: a finding fails the test with its text, a check that cannot run skips it."""
        __tracebackhide__ = True
        if test.unit in self._broken:
            pytest.skip(f"{test.check} was not run: {self._broken[test.unit]}")
        try:
            trial = self._of(test)
        except TwiceError as error:
            self.close()
            self._broken[test.unit] = error.message
            pytest.fail(str(error), pytrace=False)
        outcome = make(chosen([test.check], quick=False)[0], trial)
        if outcome.status == "not run":
            pytest.skip(f"{test.check} was not run: {outcome.summary}")
        if outcome.status == "failed":
            pytest.fail(failure(outcome, repeat=bool(trial.command)), pytrace=False)

    def _of(self, test: Asked) -> Trial:
        """Return the trial of a unit, with its clean run made."""
        if self._unit != test.unit or self._trial is None:
            self.close()
            self._trial = self._opened(test)
            self._unit = test.unit
            _ = self._trial.expected
        return self._trial

    def _opened(self, test: Asked) -> Trial:
        what = find_pipeline(self.config, test.what) if isinstance(test.what, str) else test.what
        pipeline = pipeline_of(what)
        config = config_for(pipeline, project=self.config)
        if self.inputs is not None:
            return self._stack.enter_context(trial_of(pipeline, test.date, self.inputs, self.spark, config, test.steps))
        require_jars(self.spark, config)
        unit = unit_of(pipeline, test.date)
        sandbox = self._stack.enter_context(Sandbox.open(config, self.spark))
        # A Spark that was not started with the project's configuration does not know its catalogs.
        self._stack.enter_context(sandbox.settings(spark_settings(self.config.stores.values(), self.config.root)))
        sandbox.spark = sandboxed(self.spark)
        self._stack.enter_context(active(sandbox.spark))
        ledger = open_ledger(f"sqlite:///{sandbox.folder / 'production.db'}")
        production = Runtime(sandbox.spark, Stores(config), ledger, config.lease)
        name, place = _known_as(self.config, pipeline)
        command = (name, "--for", test.date, *(word for step in test.steps for word in ("--step", step)))
        request = Request(unit, steps=test.steps, command=command if name else (), place=place)
        return prepared(production, sandbox, pipeline, request)

    def close(self) -> None:
        """Remove the sandbox."""
        self._unit, self._trial = None, None
        self._stack.close()


def _known_as(config: Config, pipeline: Pipeline) -> tuple[str, str]:
    """Return a pipeline's name in the configuration, empty for one that has none, and its `module:object`."""
    for name, place in config.pipelines.items():
        module, _, thing = place.partition(":")
        if getattr(sys.modules.get(module), thing, None) is pipeline:
            return name, place
    return "", import_path(pipeline)
