"""A suppression names a code that does not exist.

`# twice: ok TW999 because …` suppresses nothing, and its author believes that it does.

**Instead.** Use the code that the finding shows. `twice rule` lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job

SEVERITY = Severity.ERROR


def check(_job: Job) -> Iterator[Finding]:
    """Find nothing: comments are judged after all rules ran, in `twice.audit.auditing`."""
    yield from ()
