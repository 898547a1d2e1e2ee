"""One publish into Parquet folders, without Spark: what the system-call tests kill, break and repair."""

from __future__ import annotations

import json
from pathlib import Path
from zoneinfo import ZoneInfo

from twice import Day, Overwrite, Table
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.file_system import LocalFiles
from twice.store.parquet import publishing
from twice.store.parquet.folder import Folder
from twice.store.parquet.log import State

UTC = ZoneInfo("UTC")
TABLE = Table("files.core.t", partition=Day("d"), write=Overwrite())
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
# The three days of a publish: one is replaced, one becomes empty, one is new.
OLD = {"d=2026-04-24/n": "neighbour", "d=2026-04-25/a": "1", "d=2026-04-25/b": "1", "d=2026-04-26/a": "1"}
NEW = {"d=2026-04-24/n": "neighbour", "d=2026-04-25/c": "22", "d=2026-04-27/c": "22"}


def target(first: str = "2026-04-25", end: str = "2026-04-28") -> Target:
    return Target.of(TABLE, Scope(Window(Day.parse(first, UTC), Day.parse(end, UTC))), UTC)


def folder(root: Path) -> Folder:
    return Folder.of(TABLE, LocalFiles(), str(root))


def write(root: Path, token: int, rows: dict[str, str]) -> None:
    """Put into a claim's folder what Spark would have staged."""
    for path, text in rows.items():
        file = Path(folder(root).rows(token), path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def seed(root: Path) -> None:
    """Make version 1."""
    assert folder(root).log.commit(State(0, 0, SCHEMA))
    everything = target("2026-04-24")
    staged = publishing.open_staging(folder(root), everything, 1)
    write(root, 1, OLD)
    publishing.publish(folder(root), staged, everything.partitions, {}, {})


def publish(root: Path, token: int) -> str:
    """Stage and publish the new days, as a claim of its own."""
    staged = publishing.open_staging(folder(root), target(), token)
    write(root, token, {path: text for path, text in NEW.items() if "04-24" not in path})
    return publishing.publish(folder(root), staged, target().partitions, {}, {})


def data(root: Path) -> dict[str, str]:
    """Everything that a reader of the folder sees."""
    place = Path(folder(root).data)
    return {str(path.relative_to(place)): path.read_text() for path in sorted(place.rglob("*")) if path.is_file()}


def leftovers(root: Path) -> list[str]:
    book = Path(folder(root).bookkeeping)
    return [str(path) for part in ("stage", "aside", "trash", "work") for path in (book / part).glob("*")]
