"""One audit from start to end: files, findings, baseline, changes, repairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twice.audit import applying, changes
from twice.audit import baseline as baselines
from twice.audit.config import AuditConfig
from twice.audit.files import collect
from twice.audit.findings import Finding
from twice.audit.output.summary import Summary
from twice.audit.running import Audited, Progress, audit_files


@dataclass
class Outcome:
    """What an audit has to say."""

    summary: Summary
    audited: Audited
    fixed: int = 0
    fixed_files: int = 0
    files: list[Path] = field(default_factory=list)


def audit(
    paths: Sequence[Path],
    config: AuditConfig,
    *,
    baseline: Path | None = None,
    since: str | None = None,
    fix: bool = False,
    unsafe_fixes: bool = False,
    processes: int | None = None,
    use_cache: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """Audit files and folders."""
    changed = changes.since(since, _folder(paths)) if since is not None else None
    files = collect(paths, config)
    audited = audit_files(files, config, processes=processes, use_cache=use_cache, progress=progress)
    fixed = fixed_files = 0
    if fix or unsafe_fixes:
        fixed, fixed_files = _fix(files, audited, config, unsafe=unsafe_fixes)
        if fixed:
            audited = audit_files(files, config, processes=processes, use_cache=use_cache)
    findings: list[Finding] = audited.findings
    if changed is not None:
        findings = [one for one in findings if changed.touches(one, (config.root / one.path).resolve())]
    known = gone = 0
    if baseline is not None:
        compared = baselines.compare(baseline, findings)
        findings, known, gone = compared.new, compared.known, compared.gone if changed is None else 0
    suppressed = sum(len(result.suppressed) for result in audited.results)
    return Outcome(Summary(len(files), findings, suppressed, known, gone), audited, fixed, fixed_files, files)


def _folder(paths: Sequence[Path]) -> Path:
    first = paths[0]
    return first if first.is_dir() else first.parent


def _fix(files: Sequence[Path], audited: Audited, config: AuditConfig, *, unsafe: bool) -> tuple[int, int]:
    by_path = {result.path: result.findings for result in audited.results}
    count = changed = 0
    from twice.audit.files import shown_path

    for file in files:
        findings = by_path.get(shown_path(file, config.root), ())
        if applying.fixable(findings, unsafe=unsafe):
            done = applying.apply(file, findings, unsafe=unsafe)
            count += done
            changed += done > 0
    return count, changed
