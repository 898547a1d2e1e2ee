"""Start a backfill, or go on with one, in a workshop that is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twice.backfill.execution import Crew
from twice.backfill.notes import Note, Tell
from twice.backfill.planning import Plan, Planner
from twice.backfill.request import Request, chosen
from twice.backfill.summary import Summary, summarise
from twice.backfill.weighing import weigh
from twice.engine.fingerprint import fingerprint
from twice.engine.live import Live
from twice.engine.separating import separability
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.engine.run import Workshop
    from twice.ledger import BackfillInfo
    from twice.model.pipelines import Pipeline


def silent(_note: Note) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Project:
    """What all backfills of one pipeline in one process share."""

    workshop: Workshop
    pipeline: Pipeline
    tell: Tell = silent
    command: str = ""

    def planner(self, request: Request) -> Planner:
        """Return a planner that asks the tables and Spark, without starting a Spark job."""
        live = Live(self.workshop)
        return Planner(
            self.workshop.ledger,
            self.pipeline,
            request,
            judge=lambda stage: separability(self.workshop, self.pipeline, stage),
            weigh=lambda stage: weigh(self.workshop, self.pipeline, stage),
            live=live.outputs,
            sources=live,
        )

    def start(self, request: Request) -> Summary:
        """Do what was asked for; with nothing to do, no backfill is begun."""
        planner = self.planner(request)
        plan = planner.plan()
        if plan.nothing_to_do:
            return Summary.of_nothing(plan)
        backfill = self.workshop.ledger.start_backfill(
            self.pipeline.name,
            request.scope,
            [step.writes.name for step in planner.steps],
            request=request.to_json(),
            code=code_of(self.pipeline, request),
            parallel=request.parallel,
            ttl=self.workshop.lease,
            command=self.command,
        )
        self.tell(Note("started", backfill))
        return self._work(planner, backfill, plan)

    def go_on(self, info: BackfillInfo, *, new_code: bool = False, restart: bool = False) -> Summary:
        """Do what is left of a backfill, beside other processes that may work on it."""
        request = Request.from_json(info.request)
        now = code_of(self.pipeline, request)
        if (changed := changed_steps(info, now)) and not (new_code or restart):
            raise code_changed(info, changed)
        self.workshop.ledger.join_backfill(info.id, ttl=self.workshop.lease, code=now, restart=restart)
        self.tell(Note("started", info.id))
        return self._work(self.planner(request), info.id, None)

    def _work(self, planner: Planner, backfill: str, plan: Plan | None) -> Summary:
        crew = Crew(self.workshop, planner, backfill, self.tell, plan=plan, command=self.command)
        status = crew.work()
        return summarise(self.workshop.ledger, self.pipeline, planner.request, backfill, status)


def code_of(pipeline: Pipeline, request: Request) -> dict[str, str]:
    """Fingerprint the code of every step of a backfill."""
    return {step.name: fingerprint(step) for step in chosen(pipeline, request)}


def changed_steps(info: BackfillInfo, now: Mapping[str, str]) -> list[str]:
    """Name the steps whose code is another than when the backfill began."""
    return [step for step, code in now.items() if info.code.get(step, code) != code]


def code_changed(info: BackfillInfo, changed: list[str]) -> UsageError:
    """Build the error of a resume that would mix two versions of the code."""
    return UsageError(
        f"the code of {', '.join(changed)} changed since backfill {info.id} began: going on would mix two versions",
        safe="nothing was started",
        to_go_on=f"twice backfill resume {info.id} --new-code makes what is left with the new code; "
        f"twice backfill resume {info.id} --restart judges everything again",
    )
