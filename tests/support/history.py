"""A ledger that is filled by hand: what happened, without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from twice.engine.attempt.fingerprint import fingerprint
from twice.ledger import Output, open_ledger

if TYPE_CHECKING:
    from twice import Pipeline
    from twice.model.scopes import Scope

TTL = timedelta(minutes=1)


class History:
    """A pipeline, and a ledger that is told what its steps did."""

    def __init__(self, url: str, pipeline: Pipeline, **how: Any) -> None:
        self.ledger, self.pipeline = open_ledger(url, **how), pipeline

    def attempt(self, step: str, scope: Scope, code: str = "c") -> tuple[str, int]:
        """Start a run for a scope, and its attempt at a step."""
        run, table = self.ledger.runs.start(self.pipeline.name, scope), self.pipeline.find(step).writes
        return run, self.ledger.attempts.start(run, step, table.name, 1, table.scope(scope), code=code)

    def publish(
        self,
        step: str,
        *scopes: Scope,
        over: Scope | None = None,
        rows: int = 1,
        digest: str = "1-a-b-c",
        code: str = "",
        inputs: Any = (),
        details: Any = None,
    ) -> str:
        """Record that a run has made scopes of a step, each of them claimed or one that is `over` them all."""
        declared = self.pipeline.find(step)
        name, code = declared.writes.name, code or fingerprint(declared)
        run, row = self.attempt(step, over or scopes[0], code)
        claimed = [declared.writes.scope(scope) for scope in ([over] if over else scopes)]
        claim = self.ledger.leases.claim(name, claimed, ttl=TTL, run=run)
        outputs = [
            Output(name, declared.writes.scope(scope), rows, digest, "f", "1", self.pipeline.name, step, code, read)
            for scope in scopes
            for read in [tuple(inputs(scope) if callable(inputs) else inputs)]
        ]
        self.ledger.leases.bind(row, claim, base_version=None, inputs=outputs[0].inputs)
        self.ledger.outputs.record(claim, row, outputs, status="published", details=details)
        self.ledger.runs.finish(run, "done")
        return run
