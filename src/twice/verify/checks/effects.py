"""`effects`: each effect that a unit owes is called once, with the same payload in every run."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from twice.verify.trial import NotRun, Seen

if TYPE_CHECKING:
    from twice.verify.effects import Call
    from twice.verify.trial import Finding, Trial


class Effects:
    """Run a unit twice, and once more on empty tables; calls are recorded, and nothing leaves the sandbox.

    Each key is called once, a second run calls nothing, and two clean runs send the same. The function of an effect
    without `to=` makes its call itself: it is not called here, so that only its keys are checked.
    """

    name = "effects"
    promise = "each effect is called once, however often its unit is run"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Count the recorded calls."""
        if not trial.clean.pipeline.effects:
            raise NotRun(f"{trial.pipeline.name} declares no effects after the chosen steps")
        case = trial.case()
        case.run(trial.before, trial.unit)
        first = list(case.recorder.calls)
        if not first:
            raise NotRun("no effect was due in these units")
        case.run(trial.unit)
        again = case.recorder.calls[len(first) :]
        findings: list[Finding] = []
        for effect, count in Counter(call.effect for call in again).items():
            findings.append(self._finding(trial, effect, f"a second run of the unit called it {count:,} more times"))
        for effect in {call.effect for call in first}:
            one, other = _payloads(trial.clean.recorder.calls, effect), _payloads(first, effect)
            if one != other and effect not in {call.effect for call in again}:
                private = bool(trial.pipeline.effects[effect].after.personal)
                difference = "(personal)" if private else next(iter((one - other) + (other - one)))
                findings.append(self._finding(trial, effect, f"two clean runs send different payloads: {difference}"))
        return Seen(f"{len(first):,} calls, none of them again in a second run", findings)

    def _finding(self, trial: Trial, effect: str, what: str) -> Finding:
        after = trial.pipeline.effects[effect].after
        step = trial.pipeline.producer(after)
        assert step is not None  # noqa: S101 - an effect follows a step
        return trial.finding(
            self,
            step,
            f"effect {effect}: {what}",
            cause="its key or its payload is made from the moment of the run, or from something other than the inputs",
            fix="make key and payload from the rows of the unit alone",
        )


def _payloads(calls: list[Call], effect: str) -> Counter[str]:
    return Counter(json.dumps(call.payload, sort_keys=True, default=str) for call in calls if call.effect == effect)
