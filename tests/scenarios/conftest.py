"""The scenarios' lake: source tables that somebody else fills, and pictures of what is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from twice import Day, Table
from twice.api import workshop
from twice.model.names import quote

if TYPE_CHECKING:
    from twice.engine.run import Workshop


class Lake:
    """The test's namespace, as people outside of twice see and touch it."""

    def __init__(self, lab) -> None:
        self.lab = lab

    def source(self, name: str, columns: str, rows: str = "", *, by: str = "d", **contract) -> Table:
        """Create a table that no pipeline writes; `rows` is a query or VALUES."""
        full = self.lab.name(name)
        self.lab.spark.sql(f"create table {full} ({columns}) using iceberg partitioned by ({by})")
        if rows:
            self.insert(name, rows)
        return Table(full, partition=Day(by), **contract)

    def insert(self, name: str, rows: str) -> None:
        self.lab.spark.sql(f"insert into {self.lab.name(name)} {rows}")

    def sql(self, text: str):
        """Run SQL by hand; {space} is the test's namespace."""
        return self.lab.spark.sql(text.replace("{space}", f"lake.{self.lab.space}")).collect()

    def files(self, name: str, where: str = "true") -> set[str]:
        found = self.lab.spark.sql(f"select file_path from {self.lab.name(name)}.files where {where}")
        return {row[0] for row in found.collect()}

    def picture(self, name: str) -> object:
        """Return everything about a table that must not move: content, versions, branches, columns."""
        if not self.lab.spark.catalog.tableExists(self.lab.name(name)):
            return None
        read = self.lab.read(name)
        return self.lab.rows(name), self.lab.versions(name), self.lab.refs(name), read.schema.simpleString()

    @contextmanager
    def untouched(self, *names: str) -> Iterator[None]:
        """Require that tables, recorded outputs and leases are afterwards as they were."""
        before = [(self.picture(name), self.outputs(name)) for name in names]
        yield
        assert [(self.picture(name), self.outputs(name)) for name in names] == before
        assert self.lab.ledger.leases() == []

    def outputs(self, name: str) -> list[object]:
        return self.lab.ledger.outputs(str(Table(self.lab.name(name)).id))

    def jobs(self) -> int:
        """Count the Spark jobs that this session has started."""
        return self.lab.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()

    @contextmanager
    def workshop(self) -> Iterator[Workshop]:
        with workshop(self.lab.config, spark=self.lab.spark, ledger=self.lab.ledger) as found:
            yield found

    def odd(self, table: str) -> str:
        """Return a full table name whose last part needs quoting."""
        return f"lake.{self.lab.space}.{quote(table)}"


@pytest.fixture
def lake(lab) -> Lake:
    return Lake(lab)
