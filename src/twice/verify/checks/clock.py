"""`clock`: the same rows at another time, in another time zone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.engine.spark import jvm
from twice.verify import child
from twice.verify.children import Children
from twice.verify.clocks import can_move
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from twice.verify.trial import Trial

_AHEAD = timedelta(days=40, hours=7)
_ZONES = ("Pacific/Kiritimati", "America/St_Johns")
_ZONE = "spark.sql.session.timeZone"
# So that Java's clock in whole seconds differs, too.
_APART = 1.1


class Clock:
    """Run the unit in a process whose clock is 40 days and 7 hours ahead, in another time zone.

    Python's clock is moved for the pipeline's own code, in the driver and in Spark's workers. Java's cannot be moved:
    the run begins a second after the clean one. The time zone is moved for the process, its workers, Java and the
    sessions that Spark opens by default. A step whose rows say when or where they were made fails.
    """

    name = "clock"
    promise = "a unit's rows do not depend on when and in which time zone it runs"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit at another time, and compare with a clean run."""
        if not can_move():
            raise NotRun("it needs the library time-machine: pip install 'twice[verify]'")
        seconds = _AHEAD.total_seconds()
        _ = trial.expected
        time.sleep(_APART)
        with Children(trial) as children, _moved_zone(trial) as zone:
            case = trial.case()
            ended = children.run(
                case,
                trial.before,
                trial.unit,
                environment={"TZ": zone},
                workers={**child.worker_start(), "TZ": zone, "TWICE_VERIFY_CLOCK": str(seconds)},
                seconds=seconds,
            )
        if ended.broken:
            raise NotRun(f"another process could not be made ready: {ended.broken}")
        if ended.problem:
            finding = trial.finding(
                self,
                trial.steps[-1],
                f"40 days and 7 hours later, in {zone}, the unit does not run: {ended.problem}",
                cause="the pipeline compares the clock with its data",
                fix="use the window: take `window` as an argument, or :window_start in SQL",
            )
            return Seen("", [finding])
        findings = trial.differences(
            self,
            case,
            names=("in a clean run", f"40 days and 7 hours later, in {zone}"),
            why=Why(
                cause="the step reads the clock or the machine's time zone, by itself or in a function that it calls",
                fix="use the window: take `window` as an argument, or :window_start in SQL",
            ),
        )
        return Seen(f"a run 40 days and 7 hours later, in {zone}: the same rows", findings)


@contextmanager
def _moved_zone(trial: Trial) -> Iterator[str]:
    """Move the time zone of Java, and of sessions that set none, until the end of the block."""
    spark = trial.sandbox.spark
    zones = jvm.zones(spark)
    machine, session = zones.getDefault(), spark.conf.get(_ZONE)
    zone = next(each for each in _ZONES if each not in (session, machine.getID(), trial.pipeline.zone.key))
    zones.setDefault(zones.getTimeZone(zone))
    spark.conf.set(_ZONE, zone)
    try:
        with trial.sandbox.settings({_ZONE: zone}):
            yield zone
    finally:
        spark.conf.set(_ZONE, session)  # type: ignore[arg-type]
        zones.setDefault(machine)
