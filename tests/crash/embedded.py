"""What strace kills: a ledger's bookkeeping of one publish, and the publish into a SQLite database, without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice import Day, Overwrite, Table
from twice.model.grains import zone_of
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window

if TYPE_CHECKING:
    from twice.store.sql.database import Database

START = datetime(2026, 4, 25, tzinfo=timezone.utc)
SCOPE = Scope(Window(START, START + timedelta(days=1)))
TABLE = Table("serving.main.t", partition=Day("d"), key=["id"], write=Overwrite())
TARGET = Target.of(TABLE, SCOPE, zone_of("UTC"))
FILES = {"ledger": "ledger.db", "serving": "serving.db"}


def database(folder: Path) -> Database:
    """Open the serving database of a folder."""
    from sqlalchemy import make_url

    from twice.store.sql.database import Database

    return Database("serving", make_url(f"sqlite:///{folder / FILES['serving']}"))


def serving(folder: Path, number: int) -> None:
    """Stage version `number` of the day, and publish it."""
    from pyspark.sql.types import DateType, IntegerType, LongType, StructType

    from twice.store.sql.schema import bookkeeping, tables
    from twice.store.sql.write import publishing, staging
    from twice.store.staged import Publication

    made = StructType().add("id", LongType()).add("n", IntegerType()).add("d", DateType())

    class Held:
        """The staged rows, as far as a publish asks for them: they lie in the staging table already."""

        columns, schema = made.names, made

    there = database(folder)
    tables.prepare(there, TABLE, made)
    staged: Any = staging.open_staging(there, TARGET, number)
    name = there.quoted(bookkeeping.stage_name(TABLE.id, number))
    with there.settled() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO {name} (id, n, d) VALUES (?, ?, ?)",
            [(row, number, "2026-04-25") for row in range(50 + number)],
        )
    staged.frames, staged.schema = [Held()], made
    staging.look(there, staged)
    publishing.publish(there, Publication(staged, TARGET.partitions, {"twice.run": str(number)}, {}))


def ledger(folder: Path, number: int) -> None:
    """Write down a run that publishes version `number`: claim, prepare, record, done."""
    from twice.ledger import Output, open_ledger

    book = open_ledger(f"sqlite:///{folder / FILES['ledger']}")
    run = book.runs.start("shop", SCOPE)
    attempt = book.attempts.start(run, "fct", TABLE.name, 1, SCOPE, code="c")
    claim = book.leases.claim(TABLE.name, [SCOPE], ttl=timedelta(hours=1), run=run)
    book.leases.bind(attempt, claim, base_version=str(number - 1), inputs=())
    output = Output(TABLE.name, SCOPE, number, f"d{number}", f"f{number}", str(number), "shop", "fct", "c", ())
    book.outputs.prepare(claim, attempt, [output])
    book.outputs.record(claim, attempt, [output], status="published")
    book.runs.finish(run, "done")
