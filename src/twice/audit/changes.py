"""Which lines changed since a commit: `--diff BASE`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twice.audit.findings import Finding
from twice.errors import UsageError

_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_CODE = re.compile(rb"\s*(?!#|--|//|/\*)\S")
_ESCAPE = re.compile(rb"\\([abfnrtv\\\"]|[0-7]{3})")
_ESCAPED = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"\\": b"\\", b'"': b'"',
}  # fmt: skip


@dataclass(frozen=True)
class Changes:
    """The changed lines of each file, by absolute path; None stands for a file that is new as a whole."""

    lines: Mapping[Path, frozenset[int] | None]

    def touches(self, finding: Finding, file: Path) -> bool:
        """Return whether a finding stands on a changed line."""
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
        raise UsageError(f"{base!r} is not a commit")
    _git(
        ["rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
        folder,
        f"{base!r} is not a commit of the repository {top}",
    )
    start = _git(["merge-base", base, "HEAD"], folder, fallback=base).strip()
    text = _git(
        ["-c", "core.quotePath=false", "diff", "--unified=0", "--inter-hunk-context=0", "--no-color",
         "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", start, "--"],
        top,
    )  # fmt: skip
    found: dict[Path, frozenset[int] | None] = dict(_changed(text, top))
    for name in _git(["ls-files", "--others", "--exclude-standard", "-z"], top).split("\0"):
        if name:
            found[(top / name).resolve()] = None
    return Changes(found)


def _changed(text: str, top: Path) -> Iterable[tuple[Path, frozenset[int]]]:
    """Yield files with their changed lines; inside a hunk stands source, however much it looks like a header."""
    file: Path | None = None
    lines: set[int] = set()
    inside = 0
    for line in text.split("\n"):
        if inside > 0:
            inside -= line[:1] in {"+", "-"}
            continue
        if line.startswith("+++ "):
            if file is not None:
                yield file, frozenset(lines)
            name = _unquoted(line[4:].rstrip("\t"))
            file = (top / name[2:]).resolve() if name.startswith("b/") else None
            lines = set()
            continue
        match = _HUNK.match(line)
        if match:
            removed, first, count = _count(match[1]), int(match[2]), _count(match[3])
            inside = removed + count
            lines.update(range(first, first + count) if count or file is None else _around(file, first))
    if file is not None:
        yield file, frozenset(lines)


def _around(file: Path, line: int) -> Iterable[int]:
    """Return the lines that miss what was removed below a line: that one, and all to the next statement."""
    try:
        below = file.read_bytes().splitlines()[line:]
    except OSError:
        below = []
    blank = next((index for index, text in enumerate(below) if _CODE.match(text)), 0)
    return range(line, line + blank + 2)


def _count(text: str | None) -> int:
    return int(text) if text is not None else 1


def _unquoted(name: str) -> str:
    """Undo git's way to write a name with quotes, tabs or backslashes; octal numbers stand for bytes."""
    if not (name.startswith('"') and name.endswith('"')):
        return name
    plain = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1]) or bytes([int(match[1], 8)]), os.fsencode(name[1:-1]))
    return os.fsdecode(plain)


def _git(arguments: Sequence[str], folder: Path, problem: str = "", *, fallback: str | None = None) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)  # noqa: S607 - git as the user has it
    except (OSError, ValueError) as error:
        raise UsageError(f"--diff needs git, which cannot be started: {error}") from None
    if done.returncode == 0:
        return os.fsdecode(done.stdout)
    if fallback is not None:
        return fallback
    said = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
    raise UsageError(problem or f"--diff needs a git repository: {said or 'git failed'}")
