"""Start or continue a backfill in an open runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twice.backfills.events import BackfillEvent, Report
from twice.backfills.execution import Executor
from twice.backfills.input_estimates import estimate
from twice.backfills.planning import Plan, Planner
from twice.backfills.presence import beginning
from twice.backfills.request import ONLY, Request, chosen
from twice.backfills.summary import BackfillResult, summarise
from twice.engine.attempt.fingerprint import fingerprint
from twice.engine.chunks.separability import Separability, separability
from twice.engine.operations.shadowing import begin, shadowed, shadows_of
from twice.engine.status.peeked_state import NeedsSpark, PeekedState
from twice.engine.status.table_state import TableState
from twice.errors import UsageError
from twice.ledger import find_ledger

if TYPE_CHECKING:
    from twice.config import Config
    from twice.engine.plan import PlannedStep
    from twice.engine.run import Runtime
    from twice.ledger import BackfillInfo
    from twice.model.pipelines import Pipeline


def silent(_note: BackfillEvent) -> None:
    """Report nothing."""


def plan_without_spark(config: Config, pipeline: Pipeline, request: Request) -> Plan | None:
    """Return the plan of a backfill that has nothing to do; None if it has, or where only Spark can find out."""
    ledger = find_ledger(config.ledger)
    state = PeekedState.of(config, pipeline.tables()) if ledger and not request.shadow else None
    if state is None:
        return None
    try:
        # Where the ledger alone shows work, no table has to be read.
        for live, sources in ((None, None), (state.outputs, state)):
            plan = Planner(ledger, pipeline, request, judge=_has_work, live=live, sources=sources).plan()
            if not plan.nothing_to_do:
                return None
    except NeedsSpark:
        return None
    return plan


def _has_work(planned: PlannedStep) -> Separability:
    raise NeedsSpark(planned.step.name)


@dataclass(frozen=True)
class Project:
    """What all backfills of one pipeline in one process share."""

    runtime: Runtime
    pipeline: Pipeline
    report: Report = silent
    command: str = ""

    def planner(self, request: Request) -> Planner:
        """Return a planner that asks the tables and Spark, without starting a Spark job."""
        live = TableState(self.runtime)
        return Planner(
            self.runtime.ledger,
            self.pipeline,
            request,
            judge=lambda planned: separability(self.runtime, self.pipeline, planned),
            estimate=lambda planned: estimate(self.runtime, self.pipeline, planned),
            live=live.outputs,
            sources=live,
        )

    def start(self, request: Request) -> BackfillResult:
        """Run what was requested; with nothing to do, no backfill is started."""
        if request.shadow:
            return self._start_shadow(request)
        planner = self.planner(request)
        plan = planner.plan()
        if plan.nothing_to_do:
            return BackfillResult.of_nothing(plan)
        backfill = self.runtime.ledger.backfills.start(
            self.pipeline.name,
            request.scope,
            [step.writes.name for step in planner.steps],
            request=request.to_json(),
            code=code_of(self.pipeline, request),
            parallel=request.parallel,
            ttl=self.runtime.lease,
            command=self.command,
        )
        self.report(BackfillEvent("started", backfill))
        return self._work(planner, backfill, plan)

    def shadow_request(self, request: Request) -> Request:
        """Fix the steps of a shadow: landed raw data is read as it is, unless it is to be fetched again."""
        steps = chosen(self.pipeline, request)
        extracts = [step for step in steps if step.kind == "extract"]
        if request.refetch or not extracts:
            return replace(request, steps=tuple(step.name for step in steps))
        if len(extracts) == len(steps):
            raise UsageError(
                "a shadow of extracts alone would only show what already exists",
                unchanged="nothing was started",
                next_step="add --refetch to fetch everything again",
            )
        raw = replace(request, shadow=False, steps=tuple(step.name for step in extracts), only=ONLY)
        for step in self.planner(raw).plan().steps:
            if step.needed or step.blocked:
                raise UsageError(
                    f"step {step.step.name} has not landed {step.partitions or len(step.blocked)} partitions of the "
                    "range, which the shadow would be made from",
                    unchanged="nothing was started",
                    next_step=raw.command(self.pipeline, raw.window),
                )
        return replace(request, steps=tuple(step.name for step in steps if step.kind != "extract"))

    def on_shadows(self, request: Request, mark: str) -> Project:
        """Return the same project on shadows of the tables that the steps write."""
        shadows = shadows_of(self.runtime.stores, chosen(self.pipeline, request), mark)
        return replace(self, pipeline=shadowed(self.pipeline, shadows, mark))

    def _start_shadow(self, request: Request) -> BackfillResult:
        ledger = self.runtime.ledger
        request = self.shadow_request(request)
        mark = ledger.backfills.new_id()
        unseen = self.on_shadows(request, mark)
        steps = chosen(unseen.pipeline, request)
        backfill = ledger.backfills.start(
            self.pipeline.name,
            request.scope,
            [step.writes.name for step in steps],
            request=request.to_json(),
            code=code_of(self.pipeline, request),
            parallel=request.parallel,
            ttl=self.runtime.lease,
            command=self.command,
            id_=mark,
        )
        self.report(BackfillEvent("started", backfill))
        return unseen.build_shadows(request, backfill)

    def build_shadows(self, request: Request, backfill: str) -> BackfillResult:
        """Create the shadows, and build what they lack."""
        steps = chosen(self.pipeline, request)
        tables = {step.shadow_of.writes.name: step.writes.name for step in steps if step.shadow_of}
        with beginning(self.runtime, backfill):
            self.runtime.ledger.backfills.shadows.begin(backfill, tables)
            begin(self.runtime, self.pipeline, steps, backfill, request.scope)
        return self._work(self.planner(request), backfill, None)

    def go_on(self, info: BackfillInfo, *, new_code: bool = False, restart: bool = False) -> BackfillResult:
        """Run what is left of a backfill, alongside other processes that may work on it."""
        request = Request.from_json(info.request)
        now = code_of(self.pipeline, request)
        if (changed := changed_steps(info, now)) and not (new_code or restart):
            raise code_changed(info, changed)
        self.runtime.ledger.backfills.join(info.id, ttl=self.runtime.lease, code=now, restart=restart)
        self.report(BackfillEvent("started", info.id))
        if request.shadow:
            return self.on_shadows(request, info.id).build_shadows(request, info.id)
        return self._work(self.planner(request), info.id, None)

    def _work(self, planner: Planner, backfill: str, plan: Plan | None) -> BackfillResult:
        self.runtime.stores.start_catalogs(self.runtime.spark, self.pipeline.tables())
        executor = Executor(self.runtime, planner, backfill, self.report, plan=plan, command=self.command)
        status = executor.work()
        return summarise(self.runtime.ledger, self.pipeline, planner.request, backfill, status)


def code_of(pipeline: Pipeline, request: Request) -> dict[str, str]:
    """Fingerprint the code of every step of a backfill."""
    return {step.name: fingerprint(step) for step in chosen(pipeline, request)}


def changed_steps(info: BackfillInfo, now: Mapping[str, str]) -> list[str]:
    """Return the steps whose code changed since the backfill began."""
    return [step for step, code in now.items() if info.code.get(step, code) != code]


def code_changed(info: BackfillInfo, changed: list[str]) -> UsageError:
    """Build the error of a resume that would mix two versions of the code."""
    return UsageError(
        f"the code of {', '.join(changed)} changed since backfill {info.id} began: continuing would mix two versions",
        unchanged="nothing was started",
        next_step=f"twice backfill resume {info.id} --new-code builds what is left with the new code; "
        f"twice backfill resume {info.id} --restart judges everything again",
    )
