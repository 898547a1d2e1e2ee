"""A finding is suppressed without a reason.

`# twice: ok TW301` hides a finding from every later reader, and does not show whether it was considered.
The comment therefore has no effect until it says why a second run does no harm:

    # twice: ok TW301 because the table is an event log and its readers count distinct event ids

**Instead.** Write the reason behind `because`, or remove the comment and repair the code.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job

SEVERITY = Severity.ERROR


def check(_job: Job) -> Iterator[Finding]:
    """Find nothing: comments are judged after all rules ran, in `twice.audit.auditing`."""
    yield from ()
