"""Something is announced before it is written.

The message goes out, then the write fails: every recipient has heard about data that is not there, and the rerun
sends the message again. With a queue it is worse, because consumers start at once and read the old state.

Messages that announce the start of a job are not reported.

**Instead**, write first and announce afterwards:

    totals.write…                        # the one atomic commit
    client.chat_postMessage(…)           # only when it is there
    # or publish from the table itself: an outbox row in the same transaction, or the table's change feed
    # twice
    send after `twice run` has exited with 0
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Effect, Job, Mode, Write
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, is_staging

SEVERITY = Severity.WARNING

_WRITES = frozenset(
    {
        Mode.APPEND, Mode.INSERT_NEW, Mode.UPSERT, Mode.MERGE, Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS,
        Mode.REPLACE_WHERE, Mode.UPDATE,
    }
)  # fmt: skip
_STARTS = re.compile(
    r"\b(start(s|ed|ing)?|begin(s|ning)?|began|launch(ed|ing)?|running|about to|will)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"ready|loaded|done|complet|finish|succe|available|written|report|are there|is there"
    r"|\b(is|are|was|were|been) \w+ed\b",
    re.IGNORECASE,
)


def check(job: Job) -> Iterator[Finding]:
    """Look at messages, and at the first write after them in the same function or in a later task."""
    for effect in job.effects:
        told = effect.kind in {"mail", "chat", "queue"} and effect.purpose not in {"token", "query", "alert"}
        if not told or effect.inside:
            continue
        text = "\n".join(job.line(number) for number in range(effect.place.line, effect.place.last_line + 1))
        if _STARTS.search(text) or (effect.kind != "queue" and not _DONE.search(text)):
            continue
        write = _announced(job, effect)
        if write is not None:
            yield finding(
                __name__,
                effect.place,
                f"{effect.name} announces {write.target.name or 'the data'} before line {write.place.line} writes it: "
                "if that fails, the news was wrong, and the second run sends it again",
                instead="move it after the write, or publish from what was written (an outbox table, a change feed)",
                with_twice="send after the run was published",
            )


def _announced(job: Job, effect: Effect) -> Write | None:
    """Return the first write of the same function, if it comes after the message; or that of a later task."""
    mine = [
        write
        for write in sorted(job.writes, key=lambda one: one.order)
        if write.mode in _WRITES and not is_record(write.target) and not is_staging(write.target)
    ]
    together = [write for write in mine if write.function == effect.function and write.task == effect.task]
    if together and (effect.function or not effect.task):
        return together[0] if together[0].order > effect.order and not effect.loop else None
    if job.orchestration.system == "prefect":  # its tasks run in the order in which they are called
        first = mine[0] if mine else None
        return first if first is not None and first.order > effect.order else None
    if not effect.task:
        return None
    later = [write for write in mine if write.task and effect.task in _upstream(job, write.task)]
    sooner = [write for write in mine if write.task and write.task in _upstream(job, effect.task)]
    return later[0] if later and not sooner else None


def _upstream(job: Job, task: str) -> set[str]:
    """Return all tasks that run before a task."""
    by_name = {one.name: one for one in job.orchestration.tasks}
    found: set[str] = set()
    stack = [task]
    while stack:
        one = by_name.get(stack.pop())
        for name in one.upstream if one is not None else ():
            if name not in found:
                found.add(name)
                stack.append(name)
    return found
