"""`[tool.twice.audit]` of pyproject.toml, or `[audit]` of twice.toml."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any

from twice.audit.findings import Severity
from twice.audit.keeping import kept
from twice.audit.languages.sql.dialects import DIALECTS
from twice.errors import ConfigError, UsageError, only_known

if sys.version_info >= (3, 11):
    import tomllib
else:  # Python 3.10 has no TOML reader of its own
    import tomli as tomllib

_KNOWN = {"select", "ignore", "exclude", "per-file-ignores", "dialect", "dialects", "severity", "baseline", "fail-on"}
_CODE = re.compile(r"TW\d{0,3}")


@dataclass(frozen=True)
class AuditConfig:
    """What is looked for, and where."""

    root: Path = field(default_factory=Path.cwd)
    source: Path | None = None
    select: tuple[str, ...] = ("TW",)
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dialect: str = ""
    dialects: tuple[tuple[str, str], ...] = ()
    severity: tuple[tuple[str, Severity], ...] = ()
    baseline: str = ""
    fail_on: Severity = Severity.WARNING
    starts: tuple[str, ...] = ()  # the folders that were given; without a file of settings, names count from there on

    def wants(self, code: str, path: str) -> bool:
        """Return whether a code is looked for in a file; the longer word of select and ignore wins."""
        return self._chooses(code) and not any(
            matches(path, pattern) and any(code.startswith(word) for word in codes) for pattern, codes in self.per_file
        )

    def _chooses(self, code: str) -> bool:
        known = self._choices.get(code)
        if known is None:
            chosen = max((len(word) for word in self.select if code.startswith(word)), default=-1)
            dropped = max((len(word) for word in self.ignore if code.startswith(word)), default=-1)
            known = self._choices[code] = chosen > dropped
        return known

    @kept
    def _choices(self) -> dict[str, bool]:
        """Which codes select and ignore leave, as far as they were asked for: the same for every file."""
        return {}

    def severity_of(self, code: str, default: Severity) -> Severity:
        """Return the severity that the configuration gives a code."""
        found = [(len(word), severity) for word, severity in self.severity if code.startswith(word)]
        return max(found)[1] if found else default

    def dialect_of(self, path: str) -> str:
        """Return the dialect that the configuration gives a file, or nothing."""
        for pattern, dialect in self.dialects:
            if matches(path, pattern):
                return dialect
        return self.dialect

    def excludes(self, path: str) -> bool:
        """Return whether a file is left out."""
        return any(matches(path, pattern) for pattern in self.exclude)

    def fingerprint(self) -> str:
        """Return a text that differs when findings could differ."""
        return repr((self.select, self.ignore, self.per_file, self.dialect, self.dialects, self.severity))


def matches(path: str, pattern: str) -> bool:
    """Return whether a path relative to the root fits a pattern; a folder's name stands for all below it.

    >>> matches("jobs/old/a.py", "jobs/old"), matches("jobs/a.py", "*.sql"), matches("jobs/a.sql", "**/*.sql")
    (True, False, True)
    """
    path = PurePath(path).as_posix()
    pattern = pattern.rstrip("/")
    return (
        fnmatch(path, pattern)
        or fnmatch(path, f"{pattern}/*")
        or fnmatch(path, pattern.replace("**/", ""))
        or fnmatch(path, f"*/{pattern}")
        or fnmatch(path, f"*/{pattern}/*")
    )


def load(start: Path, file: Path | None = None) -> AuditConfig:
    """Read the configuration from a file, or from the nearest one at or above a folder."""
    if file is not None:
        if not file.is_file():
            raise ConfigError(f"there is no configuration file {file}")
        return _read(file) or AuditConfig(root=file.resolve().parent)
    start = start.resolve()
    for folder in (start, *start.parents):
        for name in ("twice.toml", "pyproject.toml"):
            candidate = folder / name
            if candidate.is_file():
                found = _read(candidate)
                if found is not None:
                    return found
    return AuditConfig(root=Path.cwd())


def _read(file: Path) -> AuditConfig | None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if "audit" not in text:
        return None
    try:
        data: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}", unchanged="nothing was read") from None
    if file.name == "pyproject.toml":
        data = data.get("tool", {}).get("twice", {})
    section = data.get("audit") if isinstance(data, Mapping) else None
    if section is None:
        return None
    where = f"[{'tool.twice.' if file.name == 'pyproject.toml' else ''}audit] of {file}"
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where} must be a table")
    return _build(section, where, file)


def _build(section: Mapping[str, Any], where: str, file: Path) -> AuditConfig:
    only_known(section, _KNOWN, where)
    found = AuditConfig(root=file.resolve().parent, source=file)
    if "select" in section:
        found = replace(found, select=codes(_texts(section["select"], "select", where), f"select in {where}"))
    if "ignore" in section:
        found = replace(found, ignore=codes(_texts(section["ignore"], "ignore", where), f"ignore in {where}"))
    if "exclude" in section:
        found = replace(found, exclude=tuple(_texts(section["exclude"], "exclude", where)))
    if "per-file-ignores" in section:
        pairs = _table(section["per-file-ignores"], "per-file-ignores", where)
        found = replace(
            found,
            per_file=tuple(
                (pattern, codes(_texts(value, pattern, where), f"per-file-ignores in {where}"))
                for pattern, value in pairs.items()
            ),
        )
    if "dialect" in section:
        found = replace(found, dialect=dialect(str(section["dialect"]), where))
    if "dialects" in section:
        table = _table(section["dialects"], "dialects", where)
        found = replace(
            found, dialects=tuple((pattern, dialect(str(value), where)) for pattern, value in table.items())
        )
    if "severity" in section:
        table = _table(section["severity"], "severity", where)
        found = replace(
            found,
            severity=tuple(
                (codes([code], where)[0], severity(str(value), f"severity in {where}")) for code, value in table.items()
            ),
        )
    if "baseline" in section:
        found = replace(found, baseline=str(section["baseline"]))
    if "fail-on" in section:
        found = replace(found, fail_on=severity(str(section["fail-on"]), f"fail-on in {where}"))
    return found


def codes(words: Iterable[str], where: str) -> tuple[str, ...]:
    """Check codes and beginnings of codes: TW301, TW3, TW."""
    from twice.audit.rules import rules

    known = set(rules())
    found = []
    for word in words:
        upper = word.strip().upper()
        if not _CODE.fullmatch(upper) or not any(code.startswith(upper) for code in known):
            raise UsageError(
                f"{word!r} ({where}) is neither the code of a rule nor the start of one",
                next_step="twice rule, for all codes",
            )
        found.append(upper)
    return tuple(found)


def dialect(name: str, where: str) -> str:
    """Check a dialect's name."""
    if name.lower() not in DIALECTS:
        raise UsageError(f"{name!r} ({where}) is not a dialect; choose one of {', '.join(sorted(DIALECTS))}")
    return name.lower()


def severity(name: str, where: str) -> Severity:
    """Check a severity's name."""
    try:
        return Severity.named(name)
    except KeyError:
        raise UsageError(f"{name!r} ({where}) is not a severity; choose info, warning or error") from None


def _texts(value: Any, key: str, where: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{key} in {where} must be a list of texts")
    return list(value)


def _table(value: Any, key: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key} in {where} must be a table")
    return value
