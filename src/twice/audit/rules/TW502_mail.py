"""A mail is sent, and nothing remembers that it was.

The second run sends it again, to every recipient. A mail cannot be taken back, and a customer who gets the same invoice
twice pays twice or asks twice.

Mails about a failure, and those behind a check of what was already sent, are not reported.

**Instead**, record the mail under its own key first, and send it only if that was new:

    INSERT INTO sent_mails (invoice_id) VALUES (:id) ON CONFLICT DO NOTHING RETURNING invoice_id;   -- none: sent before
    # twice
    a table of what is to be sent, with write=InsertOnly(), and one sender that marks what it has sent
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job
from twice.audit.rules import finding
from twice.audit.rules.acting import repeated

SEVERITY = Severity.WARNING


def check(job: Job) -> Iterator[Finding]:
    """Look at every mail."""
    for effect in repeated(job, "mail"):
        yield finding(
            __name__,
            effect.place,
            f"a second run sends the mail of {effect.name} again, because nothing remembers that it went out",
            instead="record the mail under its own key (INSERT … ON CONFLICT DO NOTHING) and send only what was new",
            with_twice="a Table of mails to send with write=InsertOnly(), sent by one sender that marks them",
        )
