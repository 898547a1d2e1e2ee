"""What crosses a border, counted: rows from a database, rows to the driver, calls to Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


@dataclass
class Fetched:
    """The queries that a database answered, each with the number of rows of its answer."""

    answers: list[tuple[str, int]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all answers."""
        return sum(rows for _, rows in self.answers)

    def of(self, name: str) -> int:
        """Rows of the answers to queries of one table."""
        return sum(rows for text, rows in self.answers if re.search(rf"\b{name}\b", text))


@contextmanager
def fetched(engine: sa.Engine) -> Iterator[Fetched]:
    """Count the rows that queries return: each query is asked once more, for its count."""
    counted = Fetched()

    def look(connection: Any, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            again = cursor.connection.cursor()
            again.execute(f"SELECT count(*) FROM ({statement}) AS counted", parameters)
            counted.answers.append((statement, again.fetchone()[0]))
            again.close()

    sa.event.listen(engine, "after_cursor_execute", look)
    try:
        yield counted
    finally:
        sa.event.remove(engine, "after_cursor_execute", look)


@contextmanager
def java_calls(spark: SparkSession) -> Iterator[list[str]]:
    """Collect the commands that Python sends to Java."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    sent: list[str] = []
    usual = client.send_command

    def count(command: str, *args: Any, **how: Any) -> Any:
        if not command.startswith("m\n"):  # Python lets go of Java's objects when it pleases
            sent.append(command)
        return usual(command, *args, **how)

    client.send_command = count
    try:
        yield sent
    finally:
        del client.send_command


def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many rows each collect brings to the driver."""
    from pyspark.sql.classic.dataframe import DataFrame

    counts: list[int] = []
    usual = DataFrame.collect

    def count(rows: DataFrame) -> list[Any]:
        found = usual(rows)
        counts.append(len(found))
        return found

    monkeypatch.setattr(DataFrame, "collect", count)
    return counts
