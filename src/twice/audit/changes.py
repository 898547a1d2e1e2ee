"""Which lines changed since a commit: `--diff BASE`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twice.audit.findings import Finding
from twice.errors import UsageError

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Changes:
    """The changed lines of each file, by absolute path; None stands for a file that is new as a whole."""

    lines: Mapping[Path, frozenset[int] | None]

    def touches(self, finding: Finding, file: Path) -> bool:
        """Tell whether a finding stands on a changed line."""
        if file not in self.lines:
            return False
        changed = self.lines[file]
        return changed is None or any(
            line in changed for line in range(finding.place.line, finding.place.last_line + 1)
        )


def since(base: str, folder: Path) -> Changes:
    """Ask git for the lines that changed since `base` branched off."""
    top = Path(_git(["rev-parse", "--show-toplevel"], folder).strip())
    if base.startswith("-"):
        raise UsageError(f"{base!r} is no commit")
    _git(
        ["rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
        folder,
        f"{base!r} is no commit of the repository {top}",
    )
    start = _git(["merge-base", base, "HEAD"], folder, fallback=base).strip()
    text = _git(
        ["diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", start, "--"], top
    )
    found: dict[Path, frozenset[int] | None] = dict(_changed(text, top))
    for name in _git(["ls-files", "--others", "--exclude-standard", "-z"], top).split("\0"):
        if name:
            found[(top / name).resolve()] = None
    return Changes(found)


def _changed(text: str, top: Path) -> Iterable[tuple[Path, frozenset[int]]]:
    file: Path | None = None
    lines: set[int] = set()
    for line in text.splitlines():
        if line.startswith("+++ "):
            if file is not None:
                yield file, frozenset(lines)
            name = line[4:].strip().strip('"')
            file = (top / name[2:]).resolve() if name.startswith("b/") else None
            lines = set()
        elif file is not None:
            match = _HUNK.match(line)
            if match:
                first, count = int(match[1]), int(match[2]) if match[2] is not None else 1
                lines.update(range(first, first + count))
    if file is not None:
        yield file, frozenset(lines)


def _git(arguments: Sequence[str], folder: Path, problem: str = "", *, fallback: str | None = None) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S607 - git as the user has it
    except (OSError, ValueError) as error:
        raise UsageError(f"--diff needs git, which cannot be started: {error}") from None
    if done.returncode == 0:
        return done.stdout
    if fallback is not None:
        return fallback
    said = (done.stderr.strip().splitlines() or [""])[-1]
    raise UsageError(problem or f"--diff needs a git repository: {said or 'git failed'}")
