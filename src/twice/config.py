"""`twice.toml`, or `[tool.twice]` in pyproject.toml: pipelines, stores, profiles, the ledger."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from twice.errors import ConfigError, did_you_mean, only_known
from twice.store import registry

if sys.version_info >= (3, 11):
    import tomllib
else:  # Python 3.10 has no TOML reader of its own
    import tomli as tomllib

FILE = "twice.toml"
# [tool.twice.audit] alone is a project that is only audited.
_IN_PYPROJECT = re.compile(r"^\s*\[tool\.twice(\]|\.(?!audit\b))", re.MULTILINE)
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PLACE = re.compile(r"[^\s:]+:[^\s:]+")
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KNOWN = {"pipelines", "stores", "profiles", "ledger", "lease", "on_failure", "pools", "streams", "verify", "audit"}
_KNOWN_PROFILE = {"spark", "ledger", "stores", "streams", "packages"}
_LONGEST_LEASE = 86_400


@dataclass(frozen=True)
class StoreConfig:
    """A named place for tables."""

    name: str
    type: str
    options: Mapping[str, str] = field(repr=False)  # a URL may hold a password


@dataclass(frozen=True)
class Pool:
    """A share of Spark's cores: pools with work get cores by weight, each at least its minimum."""

    name: str
    weight: int = 1
    min_share: int = 0


@dataclass(frozen=True)
class Config:
    """One profile's view of the configuration, with every path made absolute."""

    root: Path
    source: Path | None
    profile: str
    ledger: str = field(repr=False)  # it may hold a password
    pipelines: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, StoreConfig] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] | None = None
    lease: timedelta = timedelta(seconds=60)
    on_failure: str = ""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    # The folder of the checkpoints of streams.
    checkpoints: str = ""
    # Where `twice verify` writes instead of a store, by the store's name.
    verify_stores: Mapping[str, StoreConfig] = field(default_factory=dict)

    def store(self, name: str) -> StoreConfig:
        """Return the store of that name."""
        if name not in self.stores:
            known = ", ".join(self.stores) or "none"
            raise ConfigError(
                f"no store {name!r} in {self.source or FILE}; there are: {known}",
                next_step=f'add [stores.{name}] with type = "{registry.DEFAULT}"',
            )
        return self.stores[name]


def find(start: Path) -> Path | None:
    """Look for the configuration here and in the folders above."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / FILE).is_file():
            return folder / FILE
        project = folder / "pyproject.toml"
        if project.is_file() and _IN_PYPROJECT.search(_content(project, errors="replace")):
            return project
    return None


def load(path: Path | None = None, profile: str | None = None, *, start: Path | None = None) -> Config:
    """Read the configuration; without a file, everything lives in `.twice/` below the current folder."""
    found = path or find(start or Path.cwd())
    profile = profile or os.environ.get("TWICE_PROFILE") or "default"
    if found is None:
        root = (start or Path.cwd()).resolve()
        return _build({}, root, None, profile)
    if not found.is_file():
        raise ConfigError(f"there is no configuration file {found}")
    try:
        data: Mapping[str, Any] = tomllib.loads(_content(found))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found} is not valid TOML: {error}", unchanged="nothing was run") from None
    if found.name == "pyproject.toml":
        tools = _section(data, "tool", found)
        if "twice" not in tools:
            raise ConfigError(f"{found} has no [tool.twice]", next_step="add [tool.twice], or write a twice.toml")
        data = _section(tools, "twice", found)
    return _build(data, found.resolve().parent, found, profile)


def _content(path: Path, errors: str = "strict") -> str:
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _build(data: Mapping[str, Any], root: Path, source: Path | None, profile: str) -> Config:
    where = source or "the configuration"
    only_known(data, _KNOWN, f"{where}")
    profiles = _section(data, "profiles", where)
    if profile not in profiles and profile != "default":
        known = ", ".join(profiles) or "default"
        raise ConfigError(f"no profile {profile!r} in {where}; there are: {known}")
    for each in profiles:
        _check_profile(data, _section(profiles, each, where), f"profiles.{each}", where)
    chosen = _section(profiles, profile, where)
    stores = _stores(data, chosen, where) or {"lake": {"type": registry.DEFAULT}}
    only_known(_section(data, "ledger", where), {"url"}, f"[ledger] of {where}")
    ledger = _section(chosen if "ledger" in chosen else data, "ledger", where)
    only_known(_section(data, "streams", where), {"checkpoints"}, f"[streams] of {where}")
    streams = _section(chosen if "streams" in chosen else data, "streams", where)
    lease = _section(data, "lease", where)
    only_known(lease, {"seconds"}, f"[lease] of {where}")
    packages = chosen.get("packages")
    if packages is not None and not isinstance(packages, list):
        raise ConfigError(f"packages in [profiles.{profile}] of {where} must be a list of texts")
    pipelines = _section(data, "pipelines", where)
    for name, place in pipelines.items():
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise ConfigError(f'[pipelines] {name} in {where} must look like "module:object", not {place!r}')
    return Config(
        root=root,
        source=source,
        profile=profile,
        ledger=_ledger_url(_text(ledger.get("url", "sqlite:///.twice/ledger.db"), "[ledger] url", where), root),
        pipelines=dict(pipelines),
        stores={name: _store(name, options, where) for name, options in stores.items()},
        spark=_spark(_section(chosen, "spark", where), profile, where),
        packages=None if packages is None else tuple(_text(name, "packages", where) for name in packages),
        lease=timedelta(seconds=_seconds(lease.get("seconds", 60), where)),
        on_failure=_hook(data.get("on_failure", ""), where),
        pools={name: _pool(name, options, where) for name, options in _section(data, "pools", where).items()},
        checkpoints=_folder(streams.get("checkpoints", ".twice/checkpoints"), root, where),
        verify_stores=_verify_stores(_section(data, "verify", where), stores, where),
    )


def _check_profile(data: Mapping[str, Any], profile: Mapping[str, Any], name: str, where: object) -> None:
    """Refuse unknown keys of a profile, also of one that is not in use; its values may need another environment."""
    only_known(profile, _KNOWN_PROFILE, f"[{name}] of {where}")
    only_known(_section(profile, "ledger", where), {"url"}, f"[{name}.ledger] of {where}")
    only_known(_section(profile, "streams", where), {"checkpoints"}, f"[{name}.streams] of {where}")
    stores = _stores(data, profile, where)
    for store in _section(profile, "stores", where):
        _checked_store(f"{name}.stores.{store}", stores[store], where)


def _stores(data: Mapping[str, Any], profile: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Return the stores as a profile sees them; one to which it gives another type keeps no other setting."""
    found = {**_section(data, "stores", where)}
    for name in (changes := _section(profile, "stores", where)):
        before, changed = _section(found, name, where), _section(changes, name, where)
        same = "type" not in before or changed.get("type", before["type"]) == before["type"]
        found[name] = {**before, **changed} if same else changed
    return found


def _spark(section: Mapping[str, Any], profile: str, where: object) -> dict[str, str]:
    for name, value in section.items():
        if isinstance(value, Mapping):  # TOML reads the dots of a bare key as tables in tables
            raise ConfigError(
                f"[profiles.{profile}.spark] in {where}: {name} is a table; put the whole name of a Spark "
                'setting in quotes, such as "spark.sql.shuffle.partitions" = "8"'
            )
    return {name: _setting(value, f"[profiles.{profile}.spark] {name}", where) for name, value in section.items()}


def _store(name: str, options: object, where: object) -> StoreConfig:
    checked = _checked_store(f"stores.{name}", options, where)
    settings = {k: _setting(v, f"[stores.{name}] {k}", where) for k, v in _dotted(checked) if k != "type"}
    return StoreConfig(name, checked["type"], settings)


def _verify_stores(verify: Mapping[str, Any], stores: Mapping[str, Any], where: object) -> dict[str, StoreConfig]:
    only_known(verify, {"stores"}, f"[verify] of {where}")
    found = _section(verify, "stores", where)
    only_known(found, set(stores), f"[verify.stores] of {where}")
    return {name: _store(name, {"type": stores[name].get("type"), **options}, where) for name, options in found.items()}


def _checked_store(place: str, options: object, where: object) -> Mapping[str, Any]:
    if not isinstance(options, Mapping):
        raise ConfigError(f"[{place}] in {where} must be a table")
    kind = options.get("type")
    known = registry.type_names()
    if not isinstance(kind, str) or kind not in known:
        raise ConfigError(
            f"[{place}] in {where}: type is {kind!r}; it must be one of: {', '.join(known)}"
            f"{did_you_mean(kind, known) if isinstance(kind, str) else ''}"
        )
    keys = registry.store_type(kind).keys
    only_known((key for key, _ in _dotted(options)), ("type", *keys), f"[{place}] of {where}")
    return options


def _pool(name: str, options: object, where: object) -> Pool:
    if not isinstance(options, Mapping):
        raise ConfigError(f"[pools.{name}] in {where} must be a table, such as weight = 2")
    only_known(options, {"weight", "min_share"}, f"[pools.{name}] of {where}")
    for key, least in (("weight", 1), ("min_share", 0)):
        value = options.get(key, least)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"[pools.{name}] {key} in {where} must be a whole number, {least} or more, not {value!r}")
    return Pool(name, options.get("weight", 1), options.get("min_share", 0))


def _dotted(options: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield settings by their whole name: TOML reads the dot of `option.header` as a table in a table."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", below) for inner, below in _dotted(value))
        else:
            yield name, value


def _section(data: Mapping[str, Any], name: str, where: object) -> Mapping[str, Any]:
    section = data.get(name, {})
    if not isinstance(section, Mapping):
        # The value itself is not shown: it may be a URL with a password.
        raise ConfigError(f"[{name}] in {where} must be a table, not a {_kind(section)}")
    return section


def _kind(value: object) -> str:
    return {str: "text", bool: "truth value", list: "list", dict: "table"}.get(type(value), "number or date")


def _setting(value: object, name: str, where: object) -> str:
    """Read a setting as Spark and stores take it: a text; numbers and truth values become one."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _text(value, name, where)


def _text(value: object, name: str, where: object) -> str:
    """Fill in `${NAME}` from the environment; a missing one is an error, not an empty text."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} in {where} must be a text, not a {_kind(value)}")

    def fill(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(
                f"{name} in {where} uses ${{{match[1]}}}, but the environment has no {match[1]}",
                next_step=f"export {match[1]}=…",
            )
        return os.environ[match[1]]

    return _ENV.sub(fill, value)


def _hook(value: object, where: object) -> str:
    """Return `module:function` with `${NAME}` filled in, or a command as it is: the shell expands its variables.

    A value filled in here would be read as part of the command: the text after a `;` would be run.
    """
    filled = _text(value, "on_failure", where)
    return filled if FUNCTION.fullmatch(filled) else str(value)


def _seconds(value: object, where: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_LEASE:
        raise ConfigError(f"[lease] seconds in {where} must be a number above 0 and up to a day, not {value!r}")
    return float(value)


def _folder(value: object, root: Path, where: object) -> str:
    """Make a local path absolute, seen from the configuration file; an address such as s3a://… stays as it is."""
    path = _text(value, "[streams] checkpoints", where)
    return path if "://" in path else str((root / path).resolve())


def _ledger_url(url: str, root: Path) -> str:
    """Make the path of an embedded ledger absolute, seen from the configuration file."""
    if not url.startswith("sqlite:///"):
        return url
    return f"sqlite:///{(root / url.removeprefix('sqlite:///')).resolve()}"
