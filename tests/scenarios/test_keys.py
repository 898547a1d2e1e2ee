"""S12-S17, S49 and insert-only tables: one row per business key, and the newest version of it."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from twice import Day, Merge, Overwrite, Pipeline, Table, key_hash, key_of
from twice.errors import DefinitionError, KeyViolation

pytestmark = pytest.mark.spark

CUSTOMERS = "id bigint, email string, u timestamp, d date"
MONDAY, TUESDAY = "2026-04-20", "2026-04-21"


def customer(number: int, email: str, changed: str, day: str) -> str:
    return f"({number}, '{email}', timestamp'{changed}', date'{day}')"


def merging(lab, raw, **contract):
    """Make a pipeline whose one step merges the source's window into a current-state table."""
    pipeline = Pipeline("merging", grain=Day)
    target = Table(lab.name("dim"), key=["id"], write=Merge(version="u"), **contract)
    pipeline.sql("dim", reads={"raw": raw}, writes=target, query="select id, email, u from raw")
    return pipeline


def emails(lab) -> dict[int, str]:
    return {row["id"]: row["email"] for row in lab.rows("dim")}


def test_s14_monday_after_tuesday_does_not_bring_monday_back(lab):
    raw = lab.source(
        "raw",
        CUSTOMERS,
        f"values {customer(1, 'monday@a', '2026-04-20 10:00', MONDAY)},"
        f" {customer(2, 'only@a', '2026-04-20 10:00', MONDAY)},"
        f" {customer(1, 'tuesday@a', '2026-04-21 10:00', TUESDAY)}",
    )
    pipeline = merging(lab, raw)
    lab.run(pipeline, TUESDAY)

    step = lab.run(pipeline, MONDAY).steps[0]

    assert emails(lab) == {1: "tuesday@a", 2: "only@a"}
    assert (step.details["older"], step.details["new"]) == (1, 1)


def unique_pipeline(lab, raw, pattern):
    pipeline = Pipeline("unique", grain=Day)
    keyed = Table(
        lab.name("keyed"),
        partition=None if isinstance(pattern, Merge) else Day("d"),
        key=["id", "email"],
        write=pattern,
    )
    pipeline.sql("keyed", reads={"raw": raw}, writes=keyed, query="select * from raw")
    return pipeline


@pytest.mark.parametrize(
    "pattern",
    [pytest.param(Overwrite(), id="overwrite"), pytest.param(Merge(version="u"), id="merge", marks=pytest.mark.full)],
)
def test_s15_a_null_key_stops_the_run_and_lists_the_rows(lab, pattern):
    raw = lab.source("raw", CUSTOMERS, f"values {customer(1, 'a@a', '2026-04-20 10:00', MONDAY)}")
    pipeline = unique_pipeline(lab, raw, pattern)
    lab.run(pipeline, MONDAY)
    lab.insert("raw", f"values (4711, null, timestamp'2026-04-20 10:00', date'{MONDAY}')")

    with lab.untouched("keyed"), pytest.raises(KeyViolation) as refused:
        lab.run(pipeline, MONDAY)

    assert "null in the business key (id, email)" in str(refused.value)
    assert "id=4711" in str(refused.value)


def test_s15_a_duplicate_key_stops_the_run_and_lists_the_keys(lab):
    raw = lab.source("raw", CUSTOMERS, f"values {customer(1, 'a@a', '2026-04-20 10:00', MONDAY)}")
    pipeline = unique_pipeline(lab, raw, Overwrite())
    lab.run(pipeline, MONDAY)
    # One key twice, one key that differs in half of its parts, one that is the same on another day.
    lab.insert(
        "raw",
        f"values {customer(1, 'a@a', '2026-04-20 11:00', MONDAY)}, {customer(1, 'b@a', '2026-04-20 11:00', MONDAY)},"
        f" {customer(1, 'b@a', '2026-04-20 11:00', TUESDAY)}",
    )

    with lab.untouched("keyed"), pytest.raises(KeyViolation) as refused:
        lab.run(pipeline, MONDAY)

    said = str(refused.value)
    assert "1 business key (id, email)" in said
    assert "id=1, email=a@a" in said
    assert "b@a" not in said
    assert lab.run(pipeline, TUESDAY).status == "done"


def test_s16_surrogates_are_the_same_in_python_sql_and_every_run(lab):
    raw = lab.source(
        "raw",
        "a string, b string, n int, d date",
        f"values ('ab', 'c', 1, date'{MONDAY}'), ('a', 'bc', 1, date'{MONDAY}'), (null, 'c', 1, date'{MONDAY}'),"
        f" ('', 'c', 1, date'{MONDAY}'), ('c', null, null, date'{MONDAY}')",
    )
    pipeline = Pipeline("surrogates", grain=Day)
    tables = {
        name: Table(lab.name(name), partition=Day("d"), key=["sk"], write=Overwrite())
        for name in ("in_python", "in_sql")
    }

    @pipeline.step(reads={"raw": raw}, writes=tables["in_python"])
    def in_python(raw):
        return raw.withColumn("sk", key_of("a", "b", "n", "d")).repartition(3)

    pipeline.sql(
        "in_sql", reads={"raw": raw}, writes=tables["in_sql"], query="select *, key_of(a, b, n, d) as sk from raw"
    )

    lab.run(pipeline, MONDAY)
    rows = lab.rows("in_python")

    assert rows == lab.rows("in_sql")
    assert [row["sk"] for row in rows] == [key_hash(row["a"], row["b"], row["n"], row["d"]) for row in rows]
    assert len({row["sk"] for row in rows}) == 5
    assert [step.status for step in lab.run(pipeline, MONDAY).steps] == ["unchanged", "unchanged"]


def test_s17_a_mutable_column_cannot_be_the_business_key(lab):
    with pytest.raises(DefinitionError, match="email is declared mutable and cannot be part of the business key"):
        Table(lab.name("dim"), key=["email"], mutable=["email"], write=Merge(version="u"))


def test_s17_the_e_mail_changes_and_the_customer_stays_one_row(lab):
    raw = lab.source(
        "raw",
        CUSTOMERS,
        f"values {customer(1, 'maiden@a', '2026-04-20 10:00', MONDAY)},"
        f" {customer(1, 'married@a', '2026-04-21 10:00', TUESDAY)}",
    )
    pipeline = merging(lab, raw, mutable=["email"])

    lab.run(pipeline, MONDAY)
    lab.run(pipeline, TUESDAY)
    lab.run(pipeline, MONDAY)

    assert emails(lab) == {1: "married@a"}
    assert lab.read("dim").count() == 1


def test_s49_duplicates_that_were_there_before_are_named_and_not_made_worse(lab):
    raw = lab.source("raw", CUSTOMERS, f"values {customer(1, 'new@a', '2026-04-20 10:00', MONDAY)}")
    lab.spark.sql(f"create table {lab.name('dim')} (id bigint, email string, u timestamp) using iceberg")
    lab.insert(
        "dim",
        "values (1, 'a@a', timestamp'2026-01-01'), (1, 'b@a', timestamp'2026-01-01'),"
        " (2, 'c@a', timestamp'2026-01-01')",
    )
    before = lab.read("dim").select("id", "email", "u").collect(), lab.versions("dim")

    with pytest.raises(KeyViolation) as refused:
        lab.run(merging(lab, raw), MONDAY)

    said = str(refused.value)
    assert "1 business key (id)" in said
    assert "the target table" in said
    assert "id=1" in said
    assert "id=2" not in said
    assert (lab.read("dim").select("id", "email", "u").collect(), lab.versions("dim")) == before
    assert lab.refs("dim") == ["main"]
    # Repaired by hand, the same run goes through.
    lab.sql("delete from {space}.dim where email = 'b@a'")
    lab.run(merging(lab, raw), MONDAY)
    assert emails(lab) == {1: "new@a", 2: "c@a"}


@pytest.mark.full
def test_s49_a_duplicate_put_in_by_hand_after_a_good_run_is_found_too(lab):
    raw = lab.source("raw", CUSTOMERS, f"values {customer(1, 'new@a', '2026-04-20 10:00', MONDAY)}")
    pipeline = merging(lab, raw)
    lab.run(pipeline, MONDAY)
    lab.insert("dim", "values (9, 'x@a', timestamp'2026-01-01', null), (9, 'y@a', timestamp'2026-01-01', null)")
    before = lab.versions("dim")

    with pytest.raises(KeyViolation, match="id=9"):
        lab.run(pipeline, MONDAY)

    assert lab.versions("dim") == before
    assert lab.ledger.leases.list() == []


def inserting(lab, raw, pattern):
    pipeline = Pipeline("inserting", grain=Day)
    target = Table(lab.name("events"), partition=Day("d"), key=["id"], write=pattern)
    pipeline.sql("events", reads={"raw": raw}, writes=target, query="select * from raw")
    return pipeline


@pytest.mark.full
def test_s12_a_merge_by_day_and_tenant_stays_inside_its_scope(lab):
    raw = lab.source(
        "raw",
        "id bigint, tenant string, n int, u timestamp, d date",
        f"values (1, 'acme', 1, timestamp'2026-04-20', date'{MONDAY}'),"
        f" (1, 'bolt', 2, timestamp'2026-04-20', date'{MONDAY}')",
        dimensions=["tenant"],
    )
    pipeline = Pipeline("scoped", grain=Day)
    target = Table(
        lab.name("dim"),
        partition=Day("d"),
        dimensions=["tenant"],
        key=["tenant", "id"],
        write=Merge(version="u"),
    )

    @pipeline.step(reads={"raw": raw}, writes=target)
    def dim(raw):
        return raw.withColumn("n", F.col("n") * 10)

    lab.run(pipeline, MONDAY)
    bolt = lab.files("dim", "partition.tenant = 'bolt'")
    lab.sql("update {space}.raw set n = 5")
    step = lab.run(pipeline, MONDAY, dimensions={"tenant": "acme"}).steps[0]

    assert step.details["corrected"] == 1
    assert {(row["tenant"], row["n"]) for row in lab.rows("dim")} == {("acme", 50), ("bolt", 20)}
    assert lab.files("dim", "partition.tenant = 'bolt'") == bolt
