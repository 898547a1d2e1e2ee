"""Values on the command line that click does not know: spans of time, pairs, dates on a grain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from twice.errors import UsageError
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.model.pipelines import Pipeline

_SPAN = re.compile(r"(\d+)\s*([dhms])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def span(text: str, option: str) -> timedelta:
    """Read a duration such as 7d, 12h or 30m."""
    match = _SPAN.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{option} must be a duration such as 7d, 12h or 30m, got {text!r}")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise UsageError(f"{option} {text!r} is too long") from None


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Read `name=value` options; one name has one value."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value:
            raise UsageError(f"{option} {text!r} must look like name=value: {option} tenant=acme")
        if found.setdefault(name.strip(), value) != value:
            raise UsageError(f"{option} gives {name.strip()} two values: {found[name.strip()]} and {value}")
    return found


def tags_of(texts: Sequence[str], secrets: Sequence[str]) -> dict[str, str]:
    """Read `--tag name=value`; a tag is kept and shown, so the value of a secret is hidden at once."""
    from twice.redaction import redacted_pairs

    return redacted_pairs(pairs(texts, "--tag"), secrets)


def units(pipeline: Pipeline, for_: str | None, from_: str | None, to: str | None) -> list[Window]:
    """Read the windows of a command line, one per run, oldest first."""
    if for_ is not None and (from_ is not None or to is not None):
        raise UsageError("give either --for, or --from and --to, not both")
    if for_ is not None:
        return [pipeline.grain.unit(for_, pipeline.zone)]
    if from_ is None and to is None:
        raise UsageError(
            f"which {pipeline.grain}? Give --for, or --from and --to (exclusive). There is no default, not even "
            "yesterday: what a run does must not depend on when it is started",
            unchanged="nothing was run",
            next_step=f"twice run {pipeline.name} --for {example(pipeline)}",
        )
    if from_ is None or to is None:
        raise UsageError(f"--{'from' if to is None else 'to'} needs --{'to' if to is None else 'from'} beside it")
    grain, zone = pipeline.grain, pipeline.zone
    return list(grain.partitions(Window(grain.parse(from_, zone), grain.parse(to, zone)), zone))


def example(pipeline: Pipeline) -> str:
    """Return a unit of the pipeline's grain as a user would write it."""
    return {"15 minutes": "2026-04-25T13:45", "hour": "2026-04-25T13:00", "week": "2026-W17", "month": "2026-04"}.get(
        pipeline.grain.name, "2026-04-25"
    )
