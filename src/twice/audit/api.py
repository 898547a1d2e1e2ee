"""One audit from start to end: files, findings, baseline, changes, repairs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from twice.audit import applying, changes
from twice.audit import baseline as baselines
from twice.audit.config import AuditConfig
from twice.audit.files import below_git, collect, shown_path
from twice.audit.findings import Finding
from twice.audit.output.summary import Summary
from twice.audit.running import Audited, Progress, audit_files


@dataclass(frozen=True)
class Part:
    """Files and folders that are audited with one configuration."""

    paths: Sequence[Path]
    config: AuditConfig
    baseline: Path | None = None


@dataclass
class Outcome:
    """What an audit has to say."""

    summary: Summary
    audited: Audited
    fixed: int = 0
    fixed_files: int = 0
    by_path: dict[str, Path] = field(default_factory=dict)  # the audited files by the path that is shown
    skipped: list[Path] = field(default_factory=list)  # given, but nothing that can be read


def audit(
    parts: Sequence[Part],
    *,
    since: str | None = None,
    fix: bool = False,
    unsafe_fixes: bool = False,
    processes: int | None = None,
    use_cache: bool = True,
    progress: Progress | None = None,
    shown_from: Path | None = None,
) -> Outcome:
    """Audit files and folders; paths are shown relative to `shown_from`, or to the root of their configuration."""
    changed = changes.since(since, _folder(parts[0].paths)) if since is not None else None
    skipped: list[Path] = []
    whole = _shared_out(parts, skipped)

    def read(told: Progress | None) -> list[_Reading]:
        return [
            _Reading.of(part, files, shown_from or part.config.root, processes, told, use_cache=use_cache)
            for part, files in whole
        ]

    readings = read(progress)
    fixed = fixed_files = 0
    if fix or unsafe_fixes:
        for reading in readings:
            count, files = _fix(reading, reading.shown(changed).findings, unsafe=unsafe_fixes)
            fixed, fixed_files = fixed + count, fixed_files + files
        if fixed:
            readings = read(None)
            changed = changes.since(since, _folder(parts[0].paths)) if since is not None else None
    results = [result for reading in readings for result in reading.audited.results]
    audited = Audited(
        sorted(results, key=lambda one: one.path), sum(reading.audited.from_cache for reading in readings)
    )
    shown = [reading.shown(changed) for reading in readings]
    summary = Summary(
        sum(len(files) for _, files in whole),
        sorted((one for each in shown for one in each.findings), key=Finding.sort_key),
        sum(len(result.suppressed) for result in results),
        sum(each.known for each in shown),
        sum(each.gone for each in shown),
        sum(result.facts.test for result in results),
    )
    by_path = {path: file for reading in readings for path, file in reading.files.items()}
    return Outcome(summary, audited, fixed, fixed_files, by_path, skipped)


@dataclass(frozen=True)
class _Shown:
    findings: list[Finding]
    known: int = 0
    gone: int = 0


@dataclass(frozen=True)
class _Reading:
    """What was found in one part, with paths as they are shown."""

    part: Part
    audited: Audited
    files: Mapping[str, Path]  # by the path that is shown

    @classmethod
    def of(
        cls,
        part: Part,
        files: Sequence[Path],
        base: Path,
        processes: int | None,
        progress: Progress | None,
        *,
        use_cache: bool,
    ) -> _Reading:
        config = part.config
        audited = audit_files(files, config, processes=processes, use_cache=use_cache, progress=progress)
        if base != config.root:
            shown = {shown_path(file, config.root): shown_path(file, base) for file in files}
            audited.results = [
                replace(
                    result,
                    path=shown[result.path],
                    findings=tuple(replace(one, path=shown[result.path]) for one in result.findings),
                )
                for result in audited.results
            ]
        return cls(part, audited, {shown_path(file, base): file for file in files})

    def shown(self, changed: changes.Changes | None) -> _Shown:
        """Return what is reported: on changed lines only, and without what the baseline knows."""
        found = self.audited.findings
        if changed is not None:
            found = [one for one in found if changed.touches(one, self.files[one.path].resolve())]
        if self.part.baseline is None:
            return _Shown(found)
        compared = baselines.compare(self.part.baseline, found, self.files)
        return _Shown(compared.new, compared.known, compared.gone if changed is None else 0)


def _shared_out(parts: Sequence[Part], skipped: list[Path]) -> list[tuple[Part, list[Path]]]:
    """Find the files of each part; one that several could read belongs to the nearest configuration."""
    several = sum(len(part.paths) for part in parts) > 1
    owners: dict[str, tuple[int, int]] = {}
    found: list[list[tuple[str, Path]]] = []
    for number, part in enumerate(parts):
        files = collect(part.paths, part.config, skipped if several else None)
        found.append([(os.path.realpath(file), file) for file in files])
        for real, _ in found[-1]:
            depth = len(part.config.root.parts) if part.config.source is not None else 0
            owners[real] = max(owners.get(real, (-1, 0)), (depth, -number))
    return [
        (
            replace(part, config=replace(part.config, starts=tuple(_starts(part.paths)))),
            [file for real, file in files if owners[real][1] == -number],
        )
        for number, (part, files) in enumerate(zip(parts, found, strict=True))
    ]


def _starts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the folders from which on names count: above them, a folder called `test` means nothing."""
    for path in paths:
        folder = (path if path.is_dir() else path.parent).resolve()
        yield str(below_git(folder) or folder)


def _folder(paths: Sequence[Path]) -> Path:
    first = paths[0]
    return first if first.is_dir() else first.parent


def _fix(reading: _Reading, findings: Sequence[Finding], *, unsafe: bool) -> tuple[int, int]:
    by_path: dict[str, list[Finding]] = {}
    for one in findings:
        by_path.setdefault(one.path, []).append(one)
    done = [applying.apply(reading.files[path], found, unsafe=unsafe) for path, found in by_path.items()]
    return sum(done), sum(count > 0 for count in done)
