"""Results of earlier audits, kept outside of the audited tree: same file, rules and settings, same findings."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from twice import __version__
from twice.audit.auditing import Facts, FileResult
from twice.audit.findings import Edit, Finding, Fix, Severity
from twice.audit.places import Place

_MOST = 50_000


def digest(data: bytes) -> str:
    """Return a short fingerprint of a file's content."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def rules_fingerprint() -> str:
    """Return a text that changes with every file of the audit itself, and with what parses for it."""
    folder = Path(__file__).parent
    marks = [__version__, sys.version, version("sqlglot")]
    for path in sorted(folder.rglob("*.py")):
        stat = path.stat()
        marks.append(f"{path.name}:{stat.st_mtime_ns}:{stat.st_size}")
    return digest("\n".join(marks).encode())


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    return Path(base) / "twice"


@dataclass
class Cache:
    """One project's results; a cache that cannot be read or written is ignored."""

    file: Path | None
    entries: dict[str, Any] = field(default_factory=dict)
    changed: bool = False

    @classmethod
    def open(cls, root: Path, fingerprint: str) -> Cache:
        """Open the cache of a project for one version of rules and settings."""
        try:
            file = _folder() / f"audit-{digest(str(root.resolve()).encode())}.json"
        except RuntimeError:  # no home directory
            return cls(None)
        mark = digest(f"{rules_fingerprint()}\n{fingerprint}".encode())
        entries: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            data = json.loads(file.read_text(encoding="utf-8"))
            if data.get("for") == mark:
                entries = data["entries"]
        found = cls(file, entries)
        found._mark = mark
        return found

    _mark: str = ""

    def get(self, path: str, content: str, root: Path) -> FileResult | None:
        """Return what was found in a file of that content, if its neighbours are what they were."""
        entry = self.entries.get(path)
        if not isinstance(entry, Mapping) or entry.get("content") != content:
            return None
        try:
            for other, then in entry["neighbours"].items():
                if file_digest(root / other) != then:
                    return None
            return result_from(entry["result"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def put(self, path: str, content: str, neighbours: Mapping[str, str], result: FileResult) -> None:
        """Remember what was found."""
        if len(self.entries) < _MOST or path in self.entries:
            self.entries[path] = {"content": content, "neighbours": dict(neighbours), "result": result_to(result)}
            self.changed = True

    def save(self) -> None:
        """Write the cache in one step, so that two audits at once cannot spoil it."""
        if self.file is None or not self.changed:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.file.parent, prefix="audit-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as out:
                    out.writelines(_written(self._mark, self.entries))
                Path(name).replace(self.file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


def _written(mark: str, entries: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of a cache entry by entry: a whole document is either slow to write or large in memory."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    yield f'{{"for":{encode(mark)},"entries":{{'
    for number, (path, entry) in enumerate(entries.items()):
        yield f"{',' if number else ''}{encode(path)}:{encode(entry)}"
    yield "}}"


def file_digest(path: Path) -> str:
    """Return the fingerprint of a file, or nothing if there is none."""
    try:
        return digest(path.read_bytes())
    except OSError:
        return ""


def finding_to(one: Finding) -> dict[str, Any]:
    """Turn a finding into JSON."""
    place = one.place
    data: dict[str, Any] = {
        "code": one.code,
        "severity": str(one.severity),
        "place": [place.line, place.column, place.end_line],
        "message": one.message,
        "instead": one.instead,
        "with_twice": one.with_twice,
        "path": one.path,
        "source": one.source,
    }
    if one.fix is not None:
        edits = [[edit.line, edit.column, edit.end_line, edit.end_column, edit.text] for edit in one.fix.edits]
        data["fix"] = {"edits": edits, "says": one.fix.says, "safe": one.fix.safe}
    return data


def finding_from(data: Mapping[str, Any]) -> Finding:
    """Turn JSON back into a finding."""
    fix = data.get("fix")
    made = Fix(tuple(Edit(*edit) for edit in fix["edits"]), fix["says"], fix["safe"]) if fix else None
    return Finding(
        data["code"],
        Severity.named(data["severity"]),
        Place(*data["place"]),
        data["message"],
        data["instead"],
        data["with_twice"],
        made,
        data["path"],
        data["source"],
    )


def result_to(result: FileResult) -> dict[str, Any]:
    """Turn a file's result into JSON."""
    facts = result.facts
    return {
        "path": result.path,
        "findings": [finding_to(one) for one in result.findings],
        "suppressed": [finding_to(one) for one in result.suppressed],
        "facts": [
            facts.writes,
            facts.retries,
            facts.every,
            facts.schedule,
            facts.language,
            list(facts.targets),
            facts.effects,
            facts.planned,
            facts.test,
        ],
    }


def result_from(data: Mapping[str, Any]) -> FileResult:
    """Turn JSON back into a file's result."""
    writes, retries, every, schedule, language, targets, effects, planned, test = data["facts"]
    return FileResult(
        data["path"],
        tuple(finding_from(one) for one in data["findings"]),
        tuple(finding_from(one) for one in data["suppressed"]),
        Facts(writes, retries, every, schedule, language, tuple(targets), effects, planned, test),
    )
