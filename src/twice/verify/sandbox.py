"""A place of its own for verification: its tables, ledgers and settings; production tables are only read.

Every store that the pipeline writes to has a twin of the same type in the sandbox. Sessions that are opened while the
sandbox is find the catalogs of the twins.
"""

from __future__ import annotations

import copy
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from twice.config import Config, StoreConfig
from twice.effects.paying import pay
from twice.engine.run import Runtime
from twice.engine.spark.jvm import active
from twice.engine.stores import Stores, open_store, spark_settings
from twice.errors import ConfigError, StoreRefused, TwiceError
from twice.ledger import open_ledger
from twice.model.names import TableName
from twice.store.protocol import Namespacing
from twice.store.registry import store_type
from twice.verify.cases import Case
from twice.verify.effects import Recorder, recorded
from twice.verify.sessions import sandboxed, settings
from twice.verify.sources import INPUTS, CopiedSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.model.pipelines import Pipeline
    from twice.model.tables import Table

_PREFIX = "verify_"


@dataclass
class Sandbox:
    """Cases of one verification, in one folder; each has tables, a ledger and inputs of its own."""

    config: Config
    spark: SparkSession
    folder: Path
    count: int = 0
    # Tells the cases of this sandbox from those of another one in a shared place.
    token: str = field(default_factory=lambda: secrets.token_hex(3))
    _namespaces: dict[tuple[str, str], Namespacing] = field(default_factory=dict, repr=False)
    _template: Path | None = field(default=None, repr=False)

    @classmethod
    @contextmanager
    def open(cls, config: Config, spark: SparkSession, folder: Path | None = None) -> Iterator[Sandbox]:
        """Open a sandbox; a folder that is not given is removed at the end."""
        given = folder is not None
        master = spark.sparkContext.master or ""
        if not given and not master.startswith("local"):
            raise ConfigError(
                f"Spark runs on {master}, and the sandbox would be a folder of this machine",
                unchanged="nothing was written",
                next_step="verify with a local profile, or name a folder that every machine sees: --sandbox FOLDER",
            )
        folder = folder or Path(tempfile.mkdtemp(prefix="twice-verify-"))
        refuse_production(config, folder)
        folder.mkdir(parents=True, exist_ok=True)
        sandbox = cls(config, spark, folder.resolve())
        try:
            with sandbox.settings(spark_settings(sandbox._twins().values(), config.root)):
                # A session reads its settings when it is opened.
                sandbox.spark = sandboxed(spark)
                with active(sandbox.spark):
                    yield sandbox
        finally:
            with suppress(TwiceError):
                sandbox._drop_namespaces()
            if not given:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def settings(self, wanted: Mapping[str, str]) -> Iterator[None]:
        """Let sessions that are opened from now on have these settings, until the end of the block."""
        with settings(self.spark, wanted):
            yield

    def case(self, pipeline: Pipeline, folders: Mapping[str, str], steps: frozenset[str]) -> Case:
        """Create a case: the chosen steps of a pipeline on empty tables, reading copies of their inputs."""
        self.count += 1
        mark = f"c{self.count}x{self.token}"
        self._new_ledger(mark)
        case = self.reopened(mark, pipeline, folders, steps)
        self._create_namespaces(step.writes for step in case.pipeline.steps.values())
        return case

    def reopened(
        self,
        mark: str,
        pipeline: Pipeline,
        folders: Mapping[str, str],
        steps: frozenset[str],
        recorder: Recorder | None = None,
    ) -> Case:
        """Open a case by its mark, also in another process: the same tables, ledger and copies of inputs."""
        recorder = recorder or Recorder()
        found = self._moved(pipeline, mark, folders, steps, recorder)
        source = CopiedSource({found.names.get(name, name): path for name, path in folders.items()})
        ledger = open_ledger(f"sqlite:///{self._ledger(mark)}")
        stores = Stores(replace(self.config, stores=self._stores(mark)), opened={INPUTS: source})
        runtime = Runtime(self.spark, stores, ledger, self.config.lease, after_step=pay)
        return Case(mark, found.pipeline, found.names, runtime, source, recorder)

    def _moved(
        self, pipeline: Pipeline, mark: str, folders: Mapping[str, str], steps: frozenset[str], recorder: Recorder
    ) -> _Moved:
        """Return the pipeline on the tables of a case."""
        names: dict[str, str] = {}
        tables: dict[TableName, Table] = {}

        def moved(table: Table) -> Table:
            if table.id not in tables:
                where = self._input(table) if table.name in folders else self._twin(table, mark)
                tables[table.id] = table.named(where)
                names[table.name] = tables[table.id].name
            return tables[table.id]

        found = copy.copy(pipeline)
        found.streams = {}
        found.steps = {
            name: replace(
                step,
                reads={each: replace(read, table=moved(read.table)) for each, read in step.reads.items()},
                writes=moved(step.writes),
            )
            for name, step in pipeline.steps.items()
            if name in steps
        }
        found.effects = {
            name: recorded(effect, moved(effect.after), recorder)
            for name, effect in pipeline.effects.items()
            if any(step.writes.id == effect.after.id for step in pipeline.steps.values() if step.name in steps)
        }
        return _Moved(found, names)

    def _input(self, table: Table) -> TableName:
        return TableName((INPUTS, table.id.store, *table.id.parts[1:]))

    def _twin(self, table: Table, mark: str) -> TableName:
        """Name a table's twin; where a store has one namespace each case has its own store, else its own namespace."""
        store = self.config.store(table.id.store)
        namespace, name = list(table.id.namespace), table.id.parts[-1]
        if self._by_case(store):
            return TableName((f"{_PREFIX}{mark}_{store.name}", *namespace, name))
        if self._shared_twin(store) is None:
            place = next(iter(store_type(store.type).places), "…")
            raise StoreRefused(
                f"verification has no place of its own for the tables of store {store.name}",
                unchanged="nothing was written",
                next_step=f"name an empty one in twice.toml: [verify.stores.{store.name}] {place} = …",
            )
        return TableName((f"{_PREFIX}{store.name}", f"{mark}_{namespace[0]}", *namespace[1:], name))

    def _twins(self) -> dict[str, StoreConfig]:
        """Return the twins that all cases share; each case has namespaces of its own in them."""
        twins = (self._shared_twin(store) for store in self.config.stores.values() if not self._by_case(store))
        return {twin.name: twin for twin in twins if twin is not None}

    def _shared_twin(self, store: StoreConfig) -> StoreConfig | None:
        """Return where tables of a store are written instead; None if no place is configured or known."""
        name = f"{_PREFIX}{store.name}"
        if store.name in self.config.verify_stores:
            return replace(self.config.verify_stores[store.name], name=name)
        local = store_type(store.type).local
        if local is None or not local.stands_for(store):
            return None
        return StoreConfig(name, store.type, local.filled(self.folder, store.name))

    def _by_case(self, store: StoreConfig) -> bool:
        found = self.config.verify_stores.get(store.name, store)
        local = store_type(found.type).local
        return local is not None and local.one_namespace and local.stands_for(found)

    def _stores(self, mark: str) -> dict[str, StoreConfig]:
        found: dict[str, StoreConfig] = {}
        for store in self.config.stores.values():
            local = store_type(store.type).local
            if local is not None and self._by_case(store):
                name = f"{_PREFIX}{mark}_{store.name}"
                found[name] = StoreConfig(name, store.type, local.filled(self.folder, name))
        return {**self.config.stores, **self._twins(), **found}

    def _create_namespaces(self, tables: Iterable[Table]) -> None:
        """Create the namespaces of a case where a store does not do it by itself."""
        twins = self._twins()
        for table in tables:
            if table.id.store not in twins:
                continue
            store = open_store(twins[table.id.store], self.config.root)
            if isinstance(store, Namespacing):
                store.create_namespace(table.id.namespace[0])
                self._namespaces[table.id.store, table.id.namespace[0]] = store

    def _drop_namespaces(self) -> None:
        """Remove the namespaces that were created for cases."""
        for (_, namespace), store in self._namespaces.items():
            store.drop_namespace(namespace)

    def _ledger(self, mark: str) -> Path:
        return self.folder / f"ledger-{mark}.db"

    def _new_ledger(self, mark: str) -> None:
        """Copy an empty ledger: creating one takes longer than many steps."""
        if self._template is None:
            self._template = self.folder / "empty.db"
            open_ledger(f"sqlite:///{self._template}")
        shutil.copy(self._template, self._ledger(mark))


@dataclass(frozen=True)
class _Moved:
    pipeline: Pipeline
    names: Mapping[str, str]


def refuse_production(config: Config, folder: Path) -> None:
    """Refuse a sandbox that holds production tables or is among them, and stores of it that are production's."""
    inside = folder.resolve()
    places = [("the ledger", config.ledger)]
    for store in config.stores.values():
        defaults = store_type(store.type).default_places(store)
        places += [(f"store {store.name}", text) for text in {**defaults, **store.options}.values()]
    known = {_normal(config.root, text) for _, text in places}
    for name, twin in config.verify_stores.items():
        row = store_type(twin.type)
        for key, default in row.default_places(twin).items():
            if _normal(config.root, default) in known:
                raise ConfigError(
                    f"[verify.stores.{name}] names no {key}, and would share that of production",
                    unchanged="nothing was written",
                    next_step=f'add {key} = "…"',
                )
        asked = [value for option, value in twin.options.items() if option in row.places]
        if any(_normal(config.root, value) in known for value in asked):
            raise ConfigError(
                f"[verify.stores.{name}] is the place of production: verification would write to it",
                unchanged="nothing was written",
                next_step="name another place, or leave the section out",
            )
    for what, text in places:
        place = text.removeprefix("sqlite:///").removeprefix("file://")
        if "://" in place:
            continue
        path = (config.root / place).resolve()
        if path == inside or inside in path.parents or path in inside.parents:
            how = "lies in" if path in inside.parents else "holds"
            raise ConfigError(
                f"the sandbox {inside} {how} {what} of production, {path}",
                unchanged="nothing was written",
                next_step="choose an empty folder: --sandbox FOLDER",
            )


def _normal(root: Path, text: str) -> str:
    """Return a place in one form: a path from the root of the disk, a database by machine, port and name."""
    if text.startswith(("postgresql", "postgres:")):
        url = sa.make_url(text)
        host = "127.0.0.1" if url.host in (None, "localhost", "::1") else url.host
        return f"postgresql {host} {url.port or 5432} {url.database}"
    place = text.removeprefix("sqlite:///").removeprefix("file://")
    return place.rstrip("/") if "://" in place else str((root / place).resolve())
