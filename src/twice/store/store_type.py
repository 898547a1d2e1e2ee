"""A store type as data: what `[stores.*]` takes, how a store is opened, and what Spark, tests and `doctor` need for it.

Each store's folder holds its row; `registry.py` finds it by name. A row imports neither Spark nor a driver: what needs
them is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import StoreConfig
    from twice.store.protocol import Source


@dataclass(frozen=True)
class Jars:
    """What Spark needs on its class path.

    `packages` names the Maven packages of a store for a Spark version such as 4.1; `every` lists all that it can name.
    `complete`: the prefixes of packages that need no other one, so that their files are handed to Spark as they are.
    `java_class`: the class by which they are recognized.
    """

    packages: Callable[[StoreConfig, str], tuple[str, ...]]
    every: tuple[str, ...] = ()
    complete: tuple[str, ...] = ()
    java_class: str = ""


@dataclass(frozen=True)
class LocalStore:
    """A store of the type in a folder of this machine: `twice verify` and tests write there instead.

    `options` are its settings, with `{folder}` and `{name}` to be filled in. `known_as`: what tests call it, if not by
    the name of the type. `one_namespace`: it has a single namespace, so that each case of a sandbox gets its own store.
    `stands_for`: whether it can take the place of a configured store.
    """

    options: Mapping[str, str]
    known_as: str = ""
    one_namespace: bool = False
    stands_for: Callable[[StoreConfig], bool] = lambda _: True

    def filled(self, folder: Path, name: str) -> dict[str, str]:
        """Return the settings of a store in a folder."""
        return {option: text.format(folder=folder, name=name) for option, text in self.options.items()}


@dataclass(frozen=True)
class StoreType:
    """One row of the registry.

    `keys`: what `[stores.*]` takes; `option.NAME` stands for any name. `places`: which keys say where tables are, with
    the default of each, in which `{name}` is the store's. `extensions`: the class of Spark's session extensions.
    `transient_errors`: a regular expression for the texts of Java errors that may succeed when tried again.
    `start_catalog`: what threads would otherwise do at the same time. `probe`: ask the store whether it answers, for
    `twice doctor --deep`; its text is printed after "NAME answers".
    """

    name: str
    keys: tuple[str, ...]
    open: Callable[[StoreConfig, Path], Source]
    places: Mapping[str, str] = field(default_factory=dict)
    spark_settings: Callable[[StoreConfig, Path], Mapping[str, str]] = lambda _store, _root: {}
    extensions: str = ""
    jars: Jars | None = None
    transient_errors: str = ""
    start_catalog: Callable[[SparkSession, str], None] | None = None
    probe: Callable[[SparkSession, StoreConfig, Path], str] | None = None
    local: LocalStore | None = None

    def default_places(self, store: StoreConfig) -> dict[str, str]:
        """Return where a store is by default, for the keys that it does not name; none in a catalog of Spark's own."""
        if store.options.get("catalog") == "spark":
            return {}
        unnamed = {key: default for key, default in self.places.items() if default and key not in store.options}
        return {key: default.format(name=store.name) for key, default in unnamed.items()}
