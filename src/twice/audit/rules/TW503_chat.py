"""A chat message is posted, and nothing remembers that it was.

The second run posts it again: people learn to ignore the channel, or act twice on the same news.

Messages about a failure, and those behind a check of what was already posted, are not reported.

**Instead**, post once per window, and remember it; or let the orchestrator announce a run that succeeded:

    if ledger.first_time("announced", day): client.chat_postMessage(…)
    DAG(…, on_success_callback=announce)
    # twice
    the ledger knows a run's outcome: announce only what `twice run` reports as published, not as unchanged
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at every chat message."""
    for effect in repeated(job, "chat"):
        yield finding(
            __name__,
            effect.place,
            f"a second run posts the message of {effect.name} again, because nothing remembers that it was posted",
            instead="remember the window that was announced and ask before posting, or use the orchestrator's success "
            "callback",
            with_twice="announce only runs that `twice run` reports as published, not as unchanged",
        )
