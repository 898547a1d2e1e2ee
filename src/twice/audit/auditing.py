"""Audit one file: read it, run the rules, take out what is suppressed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from twice.audit.config import AuditConfig
from twice.audit.findings import Finding, Severity
from twice.audit.fixing import propose
from twice.audit.languages.reading import Neighbour, is_python, read_file
from twice.audit.model import Job, Mode, Problem
from twice.audit.places import Place
from twice.audit.rules import Rule, rules
from twice.audit.suppressions import Suppression, find

UNREADABLE, NO_REASON, UNUSED, UNKNOWN = "TW000", "TW901", "TW902", "TW903"
_LONGEST_LINE = 400


@dataclass(frozen=True)
class Facts:
    """What ranking needs to know of a file besides its findings."""

    writes: int = 0
    retries: int | None = None
    every: int | None = None
    schedule: str = ""
    language: str = ""
    targets: tuple[str, ...] = ()
    effects: int = 0
    planned: bool = False  # an orchestrator has a schedule for it
    test: bool = False  # test code, which is not judged


@dataclass(frozen=True)
class FileResult:
    """What was found in one file."""

    path: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    facts: Facts = Facts()


def nobody(_path: str) -> str | None:
    """Be alone: a file without neighbours."""
    return None


def audit_text(
    path: str, text: str, config: AuditConfig, neighbour: Neighbour = nobody, *, test: bool | None = None
) -> FileResult:
    """Audit the text of a file; whatever goes wrong inside becomes a finding.

    `test` says whether it is test code; without it, the path does.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        job = read_file(path, text, dialect=config.dialect_of(path), neighbour=neighbour)
    except RecursionError:
        job = Job(path, "python" if is_python(path, text) else "sql", text)
        job.problems.append(Problem("is nested too deep to be followed", Place(1), whole_file=True))
    except Exception as error:  # noqa: BLE001 - one strange file must not stop the audit of the other files
        job = Job(path, "python" if is_python(path, text) else "sql", text)
        job.problems.append(
            Problem(f"twice could not follow it ({type(error).__name__}: {_first(error)})", Place(1), whole_file=True)
        )
    if test is not None:
        job.is_test = test
    known = rules()
    wanted = [rule for rule in known.values() if config.wants(rule.code, path)]
    found = list(_unique(_run(job, wanted)))
    suppressions = find(path, job.text)  # of a notebook on one line, the lines of its cells
    findings, suppressed, used = _without_suppressed(found, suppressions)
    findings = [_with_fix(job, one) for one in findings] if job.text == text else findings
    findings.extend(_about_suppressions(suppressions, used, set(known), config, path))
    lines = job.lines
    shown = tuple(_weighed(one, config).at(path, _line(lines, one.line)) for one in findings)
    return FileResult(
        path, tuple(sorted(shown, key=Finding.sort_key)), tuple(one.at(path, "") for one in suppressed), _facts(job)
    )


def _weighed(finding: Finding, config: AuditConfig) -> Finding:
    severity = config.severity_of(finding.code, finding.severity)
    return finding if severity == finding.severity else replace(finding, severity=severity)


def _run(job: Job, wanted: Iterable[Rule]) -> Iterator[Finding]:
    for rule in wanted:
        if job.is_test and rule.code != UNREADABLE:
            continue
        try:
            yield from rule.check(job)
        except Exception as error:  # noqa: BLE001 - a rule that raises is reported, and the other rules still run
            yield Finding(
                UNREADABLE,
                Severity.WARNING,
                Place(1),
                f"the rule {rule.code} stumbled over this file ({type(error).__name__}: {_first(error)}); "
                "the other rules ran",
                instead="report it in the issue tracker of twice, with the file if you may",
            )


def _with_fix(job: Job, finding: Finding) -> Finding:
    try:
        return propose(job, finding)
    except (ValueError, IndexError, RecursionError):  # no repair is better than a wrong one
        return finding


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:120]


def _unique(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen: set[tuple[str, int, int, str]] = set()
    for one in findings:
        mark = (one.code, one.line, one.column, one.message if one.code == UNREADABLE else "")
        if mark not in seen:
            seen.add(mark)
            yield one


def _without_suppressed(
    found: list[Finding], suppressions: list[Suppression]
) -> tuple[list[Finding], list[Finding], set[tuple[int, str]]]:
    kept: list[Finding] = []
    suppressed: list[Finding] = []
    used: set[tuple[int, str]] = set()
    narrow = {(item.place.line, one.code) for item in suppressions for one in found if item.covers(one.code, one.place)}
    for one in found:
        by = [
            item
            for item in suppressions
            if item.covers(one.code, one.place, wide=(item.place.line, one.code) not in narrow)
        ]
        used.update((item.place.line, one.code) for item in by)
        (suppressed if by else kept).append(one)
    return kept, suppressed, used


def _about_suppressions(
    suppressions: list[Suppression], used: set[tuple[int, str]], known: set[str], config: AuditConfig, path: str
) -> Iterator[Finding]:
    """TW901-TW903: the comments themselves."""
    for item in suppressions:
        if not item.codes and config.wants(UNKNOWN, path):
            yield Finding(
                UNKNOWN,
                Severity.ERROR,
                item.place,
                "this comment names no code, and so it suppresses nothing",
                instead="# twice: ok TW301 because …",
            )
        for code in item.codes:
            if code not in known:
                if config.wants(UNKNOWN, path):
                    yield Finding(
                        UNKNOWN,
                        Severity.ERROR,
                        item.place,
                        f"there is no rule {code}, and so this comment suppresses nothing",
                        instead="the code that the finding shows; `twice rule` lists all",
                    )
            elif (
                item.reason
                and (item.place.line, code) not in used
                and config.wants(UNUSED, path)
                and config.wants(code, path)
            ):
                yield Finding(
                    UNUSED,
                    Severity.WARNING,
                    item.place,
                    f"nothing here is found by {code} any more: the comment only hides the next mistake",
                    instead="remove the comment",
                )
        if item.codes and not item.reason and config.wants(NO_REASON, path):
            yield Finding(
                NO_REASON,
                Severity.ERROR,
                item.place,
                f"{', '.join(item.codes)} is waved through without a reason, and so it is not",
                instead=f"# twice: ok {item.codes[0]} because … (who reads it, and why a second run does no harm)",
            )


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1].rstrip()[:_LONGEST_LINE] if 0 < number <= len(lines) else ""


_CHANGES = frozenset(Mode) - {Mode.ALTER}


def _facts(job: Job) -> Facts:
    written = [
        write
        for write in job.writes
        if write.mode in _CHANGES and not write.target.is_scratch and write.target.kind != "view"
    ]
    plan = job.orchestration
    retries = max((task.retries for task in plan.tasks if task.retries is not None), default=plan.retries)
    targets = tuple(dict.fromkeys(write.target.name for write in written if write.target.name))
    return Facts(
        len(written),
        retries,
        plan.every,
        plan.schedule,
        job.language,
        targets[:20],
        len(job.effects),
        bool(plan.system),
        job.is_test,
    )


Reads = Callable[[str], str | None]
