"""A store as another package would bring it: a table is one JSON file, a stage another one beside it.

A publish is one rename of the table's file. A claim is fenced by removing its stage: without it nothing is published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.errors import Conflict, LeaseLost
from twice.model.patterns import Overwrite, Whole
from twice.store.protocol import Abilities, StagedRows
from twice.store.store_type import LocalStore, StoreType

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from twice.config import StoreConfig
    from twice.model.scopes import Scope
    from twice.model.tables import Table
    from twice.model.targets import Target
    from twice.model.windows import Window

_NOTHING: dict[str, Any] = {"version": 0, "token": 0, "schema": None, "rows": [], "remembered": {}, "published": {}}


class TinyStore:
    """Tables in one folder."""

    abilities = Abilities("tiny", writes=(Overwrite, Whole), pins=False, history=False, side_by_side=False)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def exists(self, session: SparkSession, table: Table) -> bool:
        return self._file(table).exists()

    def version(self, session: SparkSession, table: Table) -> str | None:
        return str(self._live(table)["version"]) if self.exists(session, table) else None

    def read(self, session: SparkSession, table: Table, version: str | None) -> DataFrame:
        live = self._live(table)
        return self._frame(session, live["schema"], live["rows"] if version is not None else [])

    def files(self, session: SparkSession, target: Target, version: str | None) -> Mapping[Scope, str]:
        return _fingerprints(target, [] if version is None else self._live(target.table)["rows"])

    def staged_files(self, session: SparkSession, staged: StagedRows) -> Mapping[Scope, str]:
        return _fingerprints(staged.target, _content(self._stage(staged))["rows"])

    def seen(self, session: SparkSession, table: Table, event: Window, zone: ZoneInfo) -> str | None:
        return self.version(session, table)

    def release(self, session: SparkSession) -> None:
        pass

    def token(self, session: SparkSession, table: Table) -> int:
        return max([self._live(table)["token"], *self.staged_tokens(session, table)])

    def staged_tokens(self, session: SparkSession, table: Table) -> Sequence[int]:
        return sorted(int(file.suffixes[-2][1:]) for file in self.folder.glob(f"{table.name}.*.stage"))

    def remembered(self, session: SparkSession, table: Table, name: str) -> str | None:
        return self._live(table)["remembered"].get(name)

    def check(self, session: SparkSession, table: Table) -> None:
        pass

    def prepare(self, session: SparkSession, table: Table, schema: StructType) -> None:
        if not self.exists(session, table):
            self._save(self._file(table), {**_NOTHING, "schema": schema.jsonValue()})

    def fence(self, session: SparkSession, table: Table, token: int, *, own: bool = False) -> str | None:
        self._file(table, token).unlink(missing_ok=True)
        return self._live(table)["published"].get(str(token))

    def open(self, session: SparkSession, target: Target, token: int) -> StagedRows:
        self._save(self._file(target.table, token), {"rows": [], "schema": self._live(target.table)["schema"]})
        return StagedRows(target, token, self.version(session, target.table))

    def stage(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        made = [json.loads(line) for line in rows.toJSON().collect()]
        self._save(self._stage(staged), {"rows": made, "schema": rows.schema.jsonValue()})

    def stage_more(self, session: SparkSession, staged: StagedRows, rows: DataFrame) -> None:
        more = [json.loads(line) for line in rows.toJSON().collect()]
        content = _content(self._stage(staged))
        self._save(self._stage(staged), {**content, "rows": content["rows"] + more})

    def stage_changes(self, *_: object, **__: object) -> None:
        raise AssertionError("its abilities refuse Merge and InsertOnly")

    def staged(self, session: SparkSession, staged: StagedRows) -> DataFrame:
        content = _content(self._stage(staged))
        return self._frame(session, content["schema"], content["rows"])

    def stray_rows(self, session: SparkSession, staged: StagedRows, limit: int) -> list[Mapping[str, object]]:
        return []

    def publish(
        self,
        session: SparkSession,
        staged: StagedRows,
        partitions: Sequence[Scope],
        notes: Mapping[str, str],
        remember: Mapping[str, str],
    ) -> str:
        live, content = self._live(staged.target.table), _content(self._stage(staged))
        if str(live["version"]) != staged.base:
            raise Conflict(f"{staged.target.table.name} was changed by another writer")
        kept = [row for row in live["rows"] if _place(staged.target, row) not in partitions]
        added = [row for row in content["rows"] if _place(staged.target, row) in partitions]
        version = live["version"] + 1
        changed = {"version": version, "token": staged.token, "schema": content["schema"], "rows": kept + added}
        published = {**live["published"], str(staged.token): str(version)}
        remembered = {**live["remembered"], **remember}
        self._save(self._file(staged.target.table), {**changed, "remembered": remembered, "published": published})
        self._stage(staged).unlink()
        return str(version)

    def discard(self, session: SparkSession, staged: StagedRows, remember: Mapping[str, str]) -> None:
        self._stage(staged).unlink()

    def _stage(self, staged: StagedRows) -> Path:
        file = self._file(staged.target.table, staged.token)
        if not file.exists():
            raise LeaseLost(f"{staged.target.table.name}: the claim {staged.token} was taken over by another run")
        return file

    def _file(self, table: Table, token: int | None = None) -> Path:
        return self.folder / (f"{table.name}.json" if token is None else f"{table.name}.{token}.stage")

    def _live(self, table: Table) -> dict[str, Any]:
        return _content(self._file(table)) if self._file(table).exists() else _NOTHING

    def _save(self, file: Path, content: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".new").write_text(json.dumps(content))
        file.with_suffix(".new").rename(file)

    def _frame(self, session: SparkSession, schema: dict[str, Any], rows: list[dict[str, Any]]) -> DataFrame:
        from pyspark.sql.types import StructType

        lines = session.sparkContext.parallelize([json.dumps(row) for row in rows], 1)
        return session.read.schema(StructType.fromJson(schema)).json(lines)


def _content(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def _place(target: Target, row: Mapping[str, Any]) -> Scope | None:
    partition = target.table.partition
    value = date.fromisoformat(row[partition.column]) if partition else None
    return target.partition_of(value, [row[name] for name in target.table.dimensions])


def _fingerprints(target: Target, rows: list[dict[str, Any]]) -> dict[Scope, str]:
    found: dict[Scope, list[str]] = {partition: [] for partition in target.partitions}
    for row in rows:
        if (place := _place(target, row)) is not None:
            found[place].append(json.dumps(row, sort_keys=True))
    return {place: _hash(texts) if texts else "" for place, texts in found.items()}


def _hash(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def _open(store: StoreConfig, root: Path) -> TinyStore:
    return TinyStore(root / store.options["path"])


TINY = StoreType(
    "tiny",
    keys=("path",),
    open=_open,
    places={"path": ""},
    transient_errors="TinyDiskIsBusy",
    local=LocalStore({"path": "{folder}/tiny/{name}"}),
)
NAMED_OTHERWISE = StoreType("small", keys=(), open=_open)
