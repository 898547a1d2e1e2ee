"""Jobs in the order in which they should be repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2

from twice.audit.auditing import FileResult
from twice.audit.findings import Finding, Severity

_WEIGHTS = {Severity.ERROR: 10.0, Severity.WARNING: 2.5, Severity.INFO: 0.0}
_HOUR, _DAY, _WEEK = 3600, 86_400, 604_800
_SCHEDULES = ((0, _HOUR, 2.0), (_HOUR, _DAY - 1, 1.6), (_DAY - 1, _WEEK - 1, 1.3), (_WEEK - 1, 10**9, 1.0))


@dataclass(frozen=True)
class Ranked:
    """One job with its risk and why."""

    path: str
    risk: float
    errors: int
    warnings: int
    writes: int
    codes: tuple[str, ...]
    worst: Finding | None
    retries: int | None = None
    schedule: str = ""
    language: str = ""
    families: tuple[str, ...] = ()  # of all findings from warning on, not only of the most frequent


def is_job(result: FileResult) -> bool:
    """Return whether a file is a job: it writes, does something outside or is scheduled, or something was found."""
    facts = result.facts
    acts = facts.writes > 0 or facts.effects > 0 or facts.planned
    return not facts.test and (acts or any(one.severity > Severity.INFO for one in result.findings))


def rank(results: Iterable[FileResult]) -> list[Ranked]:
    """Order jobs by risk: weight of their findings × how often something runs twice × how much they write.

    Helpers, settings and tests are not jobs and are left out.
    """
    found = [_ranked(result) for result in results if is_job(result)]
    return sorted(found, key=lambda one: (-one.risk, -one.errors, -one.warnings, one.path))


def _ranked(result: FileResult) -> Ranked:
    findings = result.findings
    facts = result.facts
    weight = sum(_WEIGHTS[one.severity] for one in findings if one.code != "TW000")
    # A job with automatic retries runs twice without a decision to rerun it.
    retried = 1.0 + 0.25 * min(facts.retries, 4) if facts.retries else 1.0
    often = next(
        (factor for low, high, factor in _SCHEDULES if facts.every is not None and low < facts.every <= high), 1.0
    )
    written = 1.0 + log2(1 + facts.writes) / 4
    worst = max(findings, key=lambda one: (one.severity, -one.line), default=None)
    counts = Counter(one.code for one in findings if one.severity > Severity.INFO)
    return Ranked(
        result.path,
        round(weight * retried * often * written, 1),
        sum(one.severity is Severity.ERROR for one in findings),
        sum(one.severity is Severity.WARNING for one in findings),
        facts.writes,
        tuple(code for code, _ in counts.most_common(6)),
        worst,
        facts.retries,
        facts.schedule,
        facts.language,
        tuple(sorted({code[:3] for code in counts})),
    )


@dataclass(frozen=True)
class Fleet:
    """All jobs together, in numbers that a head of data can read."""

    jobs: Sequence[Ranked]

    @property
    def unsafe(self) -> int:
        """Jobs that a rerun corrupts."""
        return sum(job.errors > 0 for job in self.jobs)

    @property
    def doubtful(self) -> int:
        """Jobs with warnings only."""
        return sum(job.errors == 0 and job.warnings > 0 for job in self.jobs)

    @property
    def clean(self) -> int:
        """Jobs in which nothing was found."""
        return sum(job.errors == 0 and job.warnings == 0 for job in self.jobs)

    @property
    def retried_and_unsafe(self) -> int:
        """Unsafe jobs that their orchestrator repeats by itself."""
        return sum(job.errors > 0 and bool(job.retries) for job in self.jobs)

    def families(self) -> list[tuple[str, int]]:
        """Count the jobs in which a family of rules found something."""
        jobs = Counter(family for job in self.jobs for family in job.families)
        return sorted(jobs.items(), key=lambda pair: (-pair[1], pair[0]))

    def share_of_first(self, count: int) -> int:
        """Return how much of all risk the first jobs carry, in percent."""
        total = sum(job.risk for job in self.jobs)
        return round(100 * sum(job.risk for job in self.jobs[:count]) / total) if total else 0


FAMILIES = {
    "TW0": ("cannot be read", "The audit could not parse them. Review them manually."),
    "TW1": ("reads", "What is read depends on when the job runs, so a rerun of an old day reads something else."),
    "TW2": ("keys", "Keys change from run to run, so that rows cannot be found again, and nothing can be joined."),
    "TW3": ("writes", "Rows are added twice, other days are lost, or readers see half a table."),
    "TW4": ("merges", "Merges insert rows again or let an old version win."),
    "TW5": ("effects", "Customers are charged, mailed or notified again."),
    "TW6": ("determinism", "The same input gives another result."),
    "TW7": ("streams", "A micro-batch that is tried again is counted again, or state grows without bound."),
    "TW8": ("operations", "Retries, catch-up and start dates make unsafe jobs run twice, or hide that they may not."),
    "TW9": ("suppressions", "Findings were waved through without a reason."),
}
