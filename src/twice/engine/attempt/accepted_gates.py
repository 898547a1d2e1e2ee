"""Gates that one run accepts, because its user states that an unusual result is right, and why.

Only gates that a table declares can be accepted: keys, scope and schema are always checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twice.engine.plan import PlannedStep
from twice.errors import UsageError, did_you_mean

# The reason for each accepted gate, by step and by the gate's name.
AcceptedGates = Mapping[str, Mapping[str, str]]


def accepted_gates(planned_steps: Sequence[PlannedStep], names: Sequence[str], because: str) -> AcceptedGates:
    """Find the gates of a run by their names; `STEP: GATE` where several steps have one of that name."""
    because = because.strip()
    if names and not because:
        raise UsageError("a gate that is accepted needs a reason", next_step='add --because "…"')
    if because and not names:
        raise UsageError("a reason needs the gate that it is for", next_step='add --accept "GATE"')
    found: dict[str, dict[str, str]] = {}
    for name in names:
        step, gate = _find(planned_steps, name)
        found.setdefault(step, {})[gate] = because
    return found


def _find(planned_steps: Sequence[PlannedStep], name: str) -> tuple[str, str]:
    gates = [(planned.step.name, gate.text) for planned in planned_steps for gate in planned.step.writes.gates]
    matches = [(step, gate) for step, gate in gates if name in (gate, f"{step}: {gate}")]
    if not matches:
        known = list(dict.fromkeys(gate for _, gate in gates))
        raise UsageError(
            f"no step of this run has a gate {name!r}; the gates are: {', '.join(known) or 'none'}"
            f"{did_you_mean(name, known)}",
            unchanged="nothing was run; keys, scope and schema are always checked and cannot be accepted",
        )
    steps = list(dict.fromkeys(step for step, _ in matches))
    if len(steps) > 1:
        raise UsageError(
            f"the steps {' and '.join(steps)} have a gate {name!r}",
            unchanged="nothing was run",
            next_step=f'give one of: --accept "{steps[0]}: {name}"',
        )
    if len(matches) > 1:
        raise UsageError(
            f"step {steps[0]} has several gates {name!r}",
            unchanged="nothing was run",
            next_step="give the functions of its checks different names",
        )
    return matches[0]
