"""Move a ledger from one database to another, as JSON lines: a header, then one row per line.

{"twice_ledger": 1, "revision": "0001", "exported_at": "…", "rows": {"runs": 1, …}}
{"runs": {"id": "…", "pipeline": "shop", …}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa

from twice.errors import UsageError
from twice.ledger.admin.files import new_file
from twice.ledger.db.database import Database
from twice.ledger.db.schema import REVISIONS, Instant, instant_of, instant_text, metadata

FORMAT = 1
ROWS_AT_ONCE = 1_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class MoveReport:
    """How many rows of each table were written or read; `changed` is False where all of them already existed."""

    file: Path
    rows: Mapping[str, int]
    changed: bool = True

    def to_json(self) -> dict[str, object]:
        return {"file": str(self.file), "rows": dict(self.rows), "changed": self.changed}


def export_ledger(database: Database, path: Path, now: datetime, progress: Progress, *, every: int) -> MoveReport:
    """Write one state of a ledger to a new file."""
    with (
        new_file(path, "export") as partial,
        database.snapshot() as connection,
        partial.open("w", encoding="utf-8") as file,
    ):
        rows = _counts(connection)
        header = {"twice_ledger": FORMAT, "revision": REVISIONS[-1], "exported_at": now.isoformat()}
        _write(file, header | {"rows": rows})
        for done, (table, row) in enumerate(_rows(connection), start=1):
            _write(file, {table: row})
            if done % every == 0:
                progress(done, sum(rows.values()))
    progress(sum(rows.values()), sum(rows.values()))
    return MoveReport(path.absolute(), rows)


def import_ledger(database: Database, path: Path, progress: Progress) -> MoveReport:
    """Read what `export_ledger` wrote into an empty ledger: all of it or nothing."""
    try:
        with path.open(encoding="utf-8") as file:
            return _import(database, _Export(path, file), progress)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not an export of a ledger: it is not text") from None


def _import(database: Database, export: _Export, progress: Progress) -> MoveReport:
    done, total = 0, sum(export.rows.values())
    with database.write() as connection:
        database.lock(connection, *metadata.sorted_tables)
        there = _counts(connection)
        if any(there.values()):
            _compare(connection, database, export, there)
            return MoveReport(export.path.absolute(), there, changed=False)
        for name, lines in groupby(export, key=lambda line: line[0]):
            rows = (row for _, row in lines)
            while batch := list(islice(rows, ROWS_AT_ONCE)):
                _store(connection, name, batch, export)
                done += len(batch)
                progress(done, total)
        for table in metadata.sorted_tables:
            if "id" in table.c and isinstance(table.c.id.type, sa.BigInteger):
                database.continue_numbers(connection, table)
    return MoveReport(export.path.absolute(), export.rows)


def _compare(connection: sa.Connection, database: Database, export: _Export, there: Mapping[str, int]) -> None:
    if export.rows == there and all(ours == theirs for ours, theirs in zip_longest(_rows(connection), export)):
        return
    raise UsageError(
        f"the ledger {database.shown} is not empty: it holds {there['runs']} runs and {there['outputs']} outputs, "
        f"and not those of {export.path}",
        unchanged="the ledger was left as it is",
        next_step="import into a ledger of its own: another file, another database, or another ?schema=",
    )


class _Export:
    """The lines of a file that `export_ledger` wrote, each checked before it is used."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path = path
        self._file = file
        self._line = 0
        header = self._next()
        if header is None or header.get("twice_ledger") != FORMAT:
            raise UsageError(
                f"{path} is not an export that this version of twice understands",
                unchanged="nothing was changed",
                next_step="write one with `twice ledger export FILE`",
            )
        if header.get("revision") != REVISIONS[-1]:
            raise UsageError(
                f"{path} was written for tables at {header.get('revision')}, this version of twice has {REVISIONS[-1]}",
                unchanged="nothing was changed",
                next_step="bring the ledger that it came from up to date with `twice ledger migrate`, and export again",
            )
        rows = header.get("rows")
        if not isinstance(rows, dict) or rows.keys() != metadata.tables.keys():
            raise self.refusal("the header does not count the rows of every table")
        self.rows: dict[str, int] = rows

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        found = dict.fromkeys(self.rows, 0)
        while (line := self._next()) is not None:
            name = next(iter(line), "")
            if len(line) != 1 or name not in found:
                raise self.refusal("it is not a row of a ledger's table")
            found[name] += 1
            yield name, self._checked(metadata.tables[name], line[name])
        if found != self.rows:
            raise self.refusal(f"the file ends early: {sum(found.values())} rows of {sum(self.rows.values())}")

    def refusal(self, why: str) -> UsageError:
        """Return what is wrong with the file, and where."""
        return UsageError(
            f"{self.path}, line {self._line}: {why}",
            unchanged="nothing was changed",
            next_step="export the ledger again; do not change the file by hand",
        )

    def _next(self) -> dict[str, Any] | None:
        text = self._file.readline()
        if not text:
            return None
        self._line += 1
        try:
            line = json.loads(text)
        except ValueError:
            raise self.refusal("it is not JSON, or cut off") from None
        if not isinstance(line, dict):
            raise self.refusal("it is not a JSON object")
        return line

    def _checked(self, table: sa.Table, row: Any) -> dict[str, Any]:
        if not isinstance(row, dict) or row.keys() != {column.name for column in table.c}:
            raise self.refusal(f"it does not hold exactly the columns of {table.name}")
        for column in table.c:
            value = row[column.name]
            if value is None and column.nullable:
                continue
            # bool is an int to Python, not to a database.
            if type(value) is not _plain_type(column).python_type or not _readable(column, value):
                raise self.refusal(f"{value!r} is not a value of {table.name}.{column.name}")
        return row


def _store(connection: sa.Connection, name: str, batch: list[dict[str, Any]], export: _Export) -> None:
    try:
        connection.execute(sa.insert(_plain(metadata.tables[name])), batch)
    except sa.exc.IntegrityError:
        raise export.refusal(f"rows of {name} contradict each other") from None


def _readable(column: sa.Column[Any], value: Any) -> bool:
    if not isinstance(column.type, Instant):
        return True
    try:
        return bool(instant_text(instant_of(value)) == value)
    except ValueError:
        return False


def _rows(connection: sa.Connection) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read every row as it is stored, in an order that every database agrees on."""
    for table in metadata.sorted_tables:
        plain = _plain(table)
        query = sa.select(plain).order_by(*(plain.c[column.name] for column in table.primary_key))
        for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query):
            yield table.name, dict(row._mapping)  # noqa: SLF001  # SQLAlchemy's public name for a row as a mapping


def _counts(connection: sa.Connection) -> dict[str, int]:
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def _plain(table: sa.Table) -> sa.TableClause:
    """Return a table whose instants are the texts that the database holds."""
    return sa.table(table.name, *(sa.column(column.name, _plain_type(column)) for column in table.c))


def _plain_type(column: sa.Column[Any]) -> sa.types.TypeEngine[Any]:
    return sa.String() if isinstance(column.type, Instant) else column.type


def _write(file: IO[str], line: Mapping[str, object]) -> None:
    file.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
