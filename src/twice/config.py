"""`twice.toml`, or `[tool.twice]` in pyproject.toml: pipelines, stores, profiles, the ledger."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from twice.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # Python 3.10 has no TOML reader of its own
    import tomli as tomllib

FILE = "twice.toml"
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KNOWN = {"pipelines", "stores", "profiles", "ledger", "lease", "on_failure"}
_KNOWN_PROFILE = {"spark", "ledger", "stores", "packages"}
_STORE_TYPES = ("iceberg",)


@dataclass(frozen=True)
class StoreConfig:
    """A named place for tables."""

    name: str
    type: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Config:
    """One profile's view of the configuration, with every path made absolute."""

    root: Path
    source: Path | None
    profile: str
    ledger: str
    pipelines: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, StoreConfig] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] | None = None
    lease: timedelta = timedelta(seconds=60)
    on_failure: str = ""

    def store(self, name: str) -> StoreConfig:
        """Return the store of that name."""
        if name not in self.stores:
            known = ", ".join(self.stores) or "none"
            raise ConfigError(
                f"no store {name!r} in {self.source or FILE}; there are: {known}",
                to_go_on=f'add [stores.{name}] with type = "iceberg"',
            )
        return self.stores[name]


def find(start: Path) -> Path | None:
    """Look for the configuration here and in the folders above."""
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder / FILE
        project = folder / "pyproject.toml"
        if project.is_file() and "[tool.twice" in project.read_text(encoding="utf-8", errors="replace"):
            return project
    return None


def load(path: Path | None = None, profile: str | None = None, *, start: Path | None = None) -> Config:
    """Read the configuration; without a file, everything lives in `.twice/` below the current folder."""
    found = path or find(start or Path.cwd())
    profile = profile or os.environ.get("TWICE_PROFILE") or "default"
    if found is None:
        root = start or Path.cwd()
        return _build({}, root, None, profile)
    if not found.is_file():
        raise ConfigError(f"there is no configuration file {found}")
    try:
        data: dict[str, Any] = tomllib.loads(found.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found} is not valid TOML: {error}", safe="nothing was run") from None
    except OSError as error:
        raise ConfigError(f"{found} cannot be read: {error.strerror}") from None
    if found.name == "pyproject.toml":
        data = data.get("tool", {}).get("twice", {})
    return _build(data, found.resolve().parent, found, profile)


def _build(data: Mapping[str, Any], root: Path, source: Path | None, profile: str) -> Config:
    where = source or "the configuration"
    _only(data, _KNOWN, f"{where}")
    profiles = _section(data, "profiles", where)
    if profile not in profiles and profile != "default":
        known = ", ".join(profiles) or "default"
        raise ConfigError(f"no profile {profile!r} in {where}; there are: {known}")
    chosen = _section(profiles, profile, where)
    _only(chosen, _KNOWN_PROFILE, f"[profiles.{profile}] of {where}")
    stores = {**_section(data, "stores", where)}
    for name, changed in _section(chosen, "stores", where).items():
        stores[name] = {**stores.get(name, {}), **changed}
    if not stores:
        stores = {"lake": {"type": "iceberg"}}
    ledger = _section({**data, **({"ledger": chosen["ledger"]} if "ledger" in chosen else {})}, "ledger", where)
    _only(ledger, {"url"}, f"[ledger] of {where}")
    lease = _section(data, "lease", where)
    _only(lease, {"seconds"}, f"[lease] of {where}")
    packages = chosen.get("packages")
    if packages is not None and not (isinstance(packages, list) and all(isinstance(p, str) for p in packages)):
        raise ConfigError(f"packages in [profiles.{profile}] of {where} must be a list of texts")
    pipelines = _section(data, "pipelines", where)
    for name, place in pipelines.items():
        if not isinstance(place, str) or ":" not in place:
            raise ConfigError(f'[pipelines] {name} in {where} must look like "module:object", not {place!r}')
    return Config(
        root=root,
        source=source,
        profile=profile,
        ledger=_ledger_url(_text(ledger.get("url", "sqlite:///.twice/ledger.db"), where), root),
        pipelines={name: _text(place, where) for name, place in pipelines.items()},
        stores={name: _store(name, options, where) for name, options in stores.items()},
        spark={name: _text(value, where) for name, value in _section(chosen, "spark", where).items()},
        packages=tuple(packages) if packages is not None else None,
        lease=timedelta(seconds=_seconds(lease.get("seconds", 60), where)),
        on_failure=_text(data.get("on_failure", ""), where),
    )


def _store(name: str, options: object, where: object) -> StoreConfig:
    if not isinstance(options, Mapping):
        raise ConfigError(f"[stores.{name}] in {where} must be a table")
    kind = options.get("type")
    if kind not in _STORE_TYPES:
        raise ConfigError(f"[stores.{name}] in {where}: type is {kind!r}; it must be one of: {', '.join(_STORE_TYPES)}")
    return StoreConfig(name, kind, {k: _text(v, where) for k, v in options.items() if k != "type"})


def _section(data: Mapping[str, Any], name: str, where: object) -> Mapping[str, Any]:
    section = data.get(name, {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"[{name}] in {where} must be a table, not {section!r}")
    return section


def _only(section: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(section) - known):
        raise ConfigError(f"{where} has {', '.join(unknown)}, which twice does not know; it knows: {', '.join(sorted(known))}")


def _text(value: object, where: object) -> str:
    """Fill in `${NAME}` from the environment; a missing one is an error, not an empty text."""
    if isinstance(value, bool):
        return str(value).lower()

    def fill(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(f"{where} uses ${{{match[1]}}}, but the environment has no {match[1]}")
        return os.environ[match[1]]

    return _ENV.sub(fill, str(value))


def _seconds(value: object, where: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise ConfigError(f"[lease] seconds in {where} must be a number above 0, not {value!r}")
    return float(value)


def _ledger_url(url: str, root: Path) -> str:
    """Make the path of an embedded ledger absolute, seen from the configuration file."""
    if not url.startswith("sqlite:///"):
        return url
    return f"sqlite:///{(root / url.removeprefix('sqlite:///')).resolve()}"
