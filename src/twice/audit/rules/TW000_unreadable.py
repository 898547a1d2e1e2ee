"""A file, or a statement in it, cannot be read.

What cannot be parsed cannot be judged. The audit reports it instead of passing over it, reads what the words alone
show (targets and modes of writes, clock functions), and continues with the next file.

Usual causes: templates that only become SQL when they are rendered, a dialect that was guessed wrong, Python 2, or a
file that is broken.

**Instead.** Name the dialect (`--dialect snowflake`, or `[tool.twice.audit.dialects]`), leave the file out
(`exclude`), or repair it.
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Problem
from twice.audit.rules import finding

SEVERITY = Severity.WARNING
_MOST = 3


def check(job: Job) -> Iterator[Finding]:
    """Report what could not be read, a few times at most."""
    for problem in job.problems[:_MOST]:
        about = "the file" if problem.whole_file else ""
        more = len(job.problems) - _MOST
        message = f"{about} {problem.message}".strip() + (
            f", and {more} more like it" if more > 0 and problem is job.problems[_MOST - 1] else ""
        )
        yield finding(
            __name__,
            problem.place,
            f"{message}; what it does on a second run is only guessed from its words",
            instead="name the dialect (--dialect, or dialects in [tool.twice.audit]), or leave the file out (exclude)",
            severity=_severity(job, problem),
        )


def _severity(job: Job, problem: Problem) -> Severity:
    """A statement that cannot write, or a model of dbt, may be unreadable without harm; a whole file may not."""
    return Severity.INFO if not problem.whole_file and (problem.harmless or job.language == "dbt") else SEVERITY
