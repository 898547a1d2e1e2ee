"""Results as a notebook shows them: one line of text, or a small table in HTML."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twice.engine.run import RunResult
    from twice.engine.status import PipelineStatus, StepStatus

# More steps than this are counted and not listed; more notes than this are cut.
_STEPS = 3
_NOTES = 10


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a small table in HTML: everything is escaped, and passwords are hidden."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    below = "".join(f"<pre>{_text(note)}</pre>" for note in shortened(list(notes)))
    return f"<div><p>{_text(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def shortened(notes: Sequence[str]) -> list[str]:
    """Return the first notes, and how many more there are."""
    more = len(notes) - _NOTES
    return [*notes[:_NOTES], *([f"… and {more:,} more"] if more > 0 else [])]


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words: `3 done, 1 stale`."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def plural(count: int, what: str, many: str = "") -> str:
    """Return a number and its noun: `1 row`, `2 rows`."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def run_line(result: RunResult) -> str:
    """Return a run in one line."""
    states = Counter(step.status for step in result.steps)
    listed = ", ".join(f"{step.step} {step.status} ({plural(step.rows, 'row')})" for step in result.steps)
    steps = listed if len(result.steps) <= _STEPS else f"{len(result.steps)} steps: {counted(states)}"
    return f"RunResult({result.run}, {result.pipeline} {result.scope}: {result.status}{'; ' if steps else ''}{steps})"


def run_html(result: RunResult) -> str:
    """Return a run as a table of its steps."""
    rows = [
        (step.step, step.table, step.status, step.rows, step.attempts, f"{step.seconds:.1f}") for step in result.steps
    ]
    effects = [f"effect {each.effect} {each.scope}: {each.text}" for each in result.effects if each.states]
    return table(
        f"Run {result.run} of {result.pipeline}, {result.scope}: {result.status}",
        ("step", "table", "result", "rows", "attempts", "seconds"),
        rows,
        [*effects, *([str(result.error)] if result.error else [])],
    )


def status_html(title: str, pipelines: Sequence[PipelineStatus]) -> str:
    """Return pipelines as a table of their steps, by the number of partitions in each state, and what is not done."""
    states = list(dict.fromkeys(state for each in pipelines for state in each.counts))
    rows = [
        (each.pipeline, step.step, step.table, *(step.counts.get(state, 0) for state in states))
        for each in pipelines
        for step in each.steps
    ]
    notes = [note for each in pipelines for step in each.steps for note in _not_done(step)]
    effects = [f"effect {record.subject}: {record.state}" for each in pipelines for record in each.effects]
    return table(title, ("pipeline", "step", "table", *states), rows, [*effects, *notes])


def _not_done(step: StepStatus) -> Iterable[str]:
    for partition in step.partitions:
        if partition.state != "done":
            why = "; ".join(reason.text.splitlines()[0] for reason in partition.reasons)
            yield f"{step.step} {partition.name}: {partition.state}{': ' if why else ''}{why}"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td style="text-align: right">{value:,}</td>'
    return f"<td>{_text(value)}</td>"


def _text(value: object) -> str:
    from twice.redaction import redact

    return html.escape(redact(str(value)))
