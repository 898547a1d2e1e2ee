"""Whatever names and values hold, they are names and values, and nothing else."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone

import pytest
from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from tests.store import databases
from tests.store.databases import FIRST, columns, two_days
from twice import Hour
from twice.errors import DefinitionError
from twice.model.names import TableName
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.sql.schema import bookkeeping, tables
from twice.store.sql.write import publishing, staging

_numbers = itertools.count(1)
# What a name of ours may hold; a database takes 63 bytes of it.
LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\")
NAMES = st.text(LETTERS, min_size=1, max_size=15).filter(
    lambda text: text == text.strip() and "${" not in text and text not in {".", ".."} and len(text.encode()) <= 60
)
# A text of Postgres holds everything but the zero byte.
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
ODD = """it's "quoted" %s :x %% `back`; -- é"""


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def shared(request, tmp_path_factory):
    if request.param == "sqlite":
        return databases.sqlite_place(tmp_path_factory.mktemp("quoting"))
    return databases.postgres_place(request.getfixturevalue("postgres").database())


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=NAMES, column=NAMES, value=VALUES)
@example(table=ODD, column="""n"a'm%e:""", value="")
@example(table="%%(x)s", column="c0", value="\\")
@example(table="a", column="b.c", value="line\nbreak\ttab\r\n")
def test_any_name_and_value_goes_through_a_whole_publish(shared, table, column, value):
    number = next(_numbers)
    name = f"{number}{table}".strip()
    reserved = {"d", "id", "tenant"}
    column = f"{column}_" if column.lower() in reserved else column
    schema = columns(d=T.DateType(), id=T.LongType(), tenant=T.StringType(), **{column: T.StringType()})
    try:
        contract = shared.table(name.replace("`", "``"), dimensions=["tenant"])
    except DefinitionError:
        reject()
    assume(max(len(name.encode()), len(column.encode())) <= 63)
    staged = shared.staged(contract, 1, [(FIRST, 1, value, value), (FIRST, 2, f"{value}x", None)], schema=schema)
    shared.publish(staged)
    both = two_days(contract)
    mine = Target.of(contract, Scope.of(both.scope.window, {"tenant": value}), both.zone)
    second = staging.open_staging(shared.database, mine, 2)
    second.schema = schema
    shared.fill(second, [(FIRST, 3, value, "new")])
    shared.publish(second)
    relation, quoted = shared.database.relation(contract.id), shared.database.quoted(column)
    found = shared.sql(f"select id, tenant, {quoted} from {relation}")
    assert sorted(found) == [(2, f"{value}x", None), (3, value, "new")]
    assert publishing.fence(shared.database, contract.id, 2) == "2"
    assert shared.left() == []


@given(st.text(LETTERS, min_size=1, max_size=80), st.integers(1, 10**12))
def test_a_staging_name_fits_and_tells_its_token_and_table(table, token):
    try:
        name = TableName(("s", "n", table))
        other = TableName(("s", "n", table + "x"))
    except DefinitionError:
        reject()
    made = bookkeeping.stage_name(name, token)
    assert len(made.encode()) <= 63
    assert made != bookkeeping.stage_name(name, token + 1)
    assert made != bookkeeping.stage_name(other, token)
    assert made.startswith(f"twice_stage_{token}_")


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=2, unique=True))
def test_two_partitions_never_share_a_row_of_the_books(tenants):
    table = databases.SqlDatabase(None, "main").table(dimensions=["a", "b"])
    window = two_days(table).scope.window
    names = set()
    for a, b in tenants:
        target = Target.of(table, Scope.of(window, {"a": a, "b": b}), databases.UTC)
        names |= {bookkeeping.part(target, partition) for partition in target.partitions}
    assert len(names) == 4
    assert max(map(len, names)) <= 190


def test_a_sub_day_partition_is_the_same_instant_in_every_zone(shared):
    schema = columns(h=T.TimestampType(), id=T.LongType())
    table = shared.table(f"hours{next(_numbers)}", partition=Hour("h"))
    at = [datetime(2026, 10, 25, hour, tzinfo=timezone.utc) for hour in range(4)]  # the clocks go back in Berlin
    target = Target.of(table, Scope(Window(at[0], at[3])), databases.ZoneInfo("Europe/Berlin"))
    tables.prepare(shared.database, table, schema)
    staged = staging.open_staging(shared.database, target, 1)
    staged.schema = schema
    shared.fill(staged, [(moment, number) for number, moment in enumerate(at)])
    assert [stray.rows for stray in staged.strays] == [1]
    assert list(staged.counts.values()) == [1, 1, 1]
    shared.publish(staged, target.partitions[1:2])
    assert shared.rows(table, "id") == [(1,)]
