"""S44, S46, S50, S51, S53, gates and undo: tables that other people read, touch, compact and reshape."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from tests.support.meanwhile import meanwhile
from tests.support.project import FULL
from twice import Day, Merge, Overwrite, Pipeline, Table, gates, key_hash, testing
from twice.engine.operations.maintain import maintain
from twice.engine.operations.undo import undo
from twice.errors import (
    GateFailed,
    KeyViolation,
    MergeRefused,
    NotDeterministic,
    OutOfScope,
    SchemaRefused,
    StepFailed,
    StoreRefused,
    UsageError,
)

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, d date, n int, u timestamp"
TWO_DAYS = "select id, date'2026-04-25' + cast(id % 2 as int), cast(id as int), timestamp'2026-04-25' from range(8)"
DAY = "2026-04-25"


def two_tables(lab, raw):
    """Make a pipeline with one scope-replaced and one merged table."""
    pipeline = Pipeline("two", grain=Day)
    fct = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite())
    dim = Table(lab.name("dim"), key=["id"], write=Merge(version="u"))
    pipeline.sql("fct", reads={"raw": raw}, writes=fct, query="select * from raw")
    pipeline.sql("dim", reads={"raw": raw}, writes=dim, query="select id, n, u from raw")
    return pipeline


@pytest.mark.parametrize("skip_fresh", [pytest.param(False, id="run"), pytest.param(True, id="skip-fresh")])
@pytest.mark.full
def test_s44_touched_by_hand_is_noticed_and_repaired(lab, skip_fresh):
    pipeline = two_tables(lab, lab.source("raw", COLUMNS, TWO_DAYS))
    lab.run(pipeline, "2026-04-26")
    older = {name: lab.versions(name)[-1] for name in ("fct", "dim")}
    lab.run(pipeline, DAY)
    right = lab.rows("fct"), lab.rows("dim")
    by_hand = {
        "deleted": "delete from {{space}}.{name} where id = 2",
        "edited": "update {{space}}.{name} set n = -1 where id = 4",
        "rolled back": "call lake.system.rollback_to_snapshot('{space}.{name}', {older})",
    }
    for what, statement in by_hand.items():
        for name in ("fct", "dim"):
            space = f"{lab.space}"
            lab.sql(statement.replace("{{space}}", f"lake.{space}").format(name=name, space=space, older=older[name]))
        assert (lab.rows("fct"), lab.rows("dim")) != right, what

        steps = lab.run(pipeline, DAY, skip_fresh=skip_fresh).steps

        assert [step.status for step in steps] == ["published", "published"], what
        assert (lab.rows("fct"), lab.rows("dim")) == right, what


def test_s44_rows_added_by_hand_to_a_replaced_day_are_gone_after_the_rerun(lab):
    pipeline = two_tables(lab, lab.source("raw", COLUMNS, TWO_DAYS))
    lab.run(pipeline, DAY, steps=["fct"])
    right = lab.rows("fct")

    lab.sql(f"insert into {{space}}.fct values (99, date'{DAY}', 1, null)")
    assert lab.run(pipeline, DAY, steps=["fct"], skip_fresh=True).steps[0].status == "published"

    assert lab.rows("fct") == right


def test_s46_compaction_and_expiry_between_claim_and_publish_are_no_conflict(lab):
    raw = lab.source("raw", COLUMNS, TWO_DAYS)
    pipeline, once = Pipeline("busy", grain=Day), SimpleNamespace(busy=False)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite()))
    def fct(raw):
        return raw.repartition(2)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("dim"), key=["id"], write=Merge(version="u")))
    def dim(raw):
        return raw.drop("d").repartition(2)

    lab.run(pipeline, from_=DAY, to="2026-04-27")
    lab.sql("update {space}.raw set n = n + 100, u = timestamp'2026-04-26'")

    def meanwhile(event):
        # The claim is made and the rows are on their branch; now somebody maintains the table.
        if event.state == "staged" and event.step not in {"", once.busy}:
            once.busy = event.step
            compacted = lab.sql(
                f"call lake.system.rewrite_data_files(table => '{lab.space}.{event.step}', "
                "options => map('rewrite-all', 'true'))"
            )
            assert compacted[0]["rewritten_data_files_count"] > 0
            lab.sql(
                f"call lake.system.expire_snapshots(table => '{lab.space}.{event.step}', "
                "older_than => timestamp'2100-01-01', retain_last => 1)"
            )

    result = lab.run(pipeline, DAY, listener=meanwhile)

    assert [step.status for step in result.steps] == ["published", "published"]
    assert once.busy == "dim"
    assert {row["id"]: row["n"] for row in lab.rows("fct")} == {0: 100, 1: 1, 2: 102, 3: 3, 4: 104, 5: 5, 6: 106, 7: 7}
    assert {row["id"]: row["n"] for row in lab.rows("dim")} == {0: 100, 1: 1, 2: 102, 3: 3, 4: 104, 5: 5, 6: 106, 7: 7}
    assert lab.refs("fct") == lab.refs("dim") == ["main"]


@pytest.mark.full
def test_s46_expiry_between_two_batches_loses_no_batch(lab, monkeypatch):
    monkeypatch.setattr("twice.engine.attempt.compute.BATCH", 10)
    pipeline = Pipeline("landing", grain=Day)
    target = Table(lab.name("landed"), partition=Day("d"), write=Overwrite(), schema="id BIGINT, d DATE")
    made = SimpleNamespace(expired=0, times=1)

    @pipeline.extract(writes=target)
    def landed(window):
        for number in range(30):
            if number == 20 and made.expired < made.times:  # twenty rows are staged by now
                made.expired += 1
                expire = (
                    f"call lake.system.expire_snapshots(table => '{lab.space}.landed', "
                    "older_than => timestamp'2100-01-01', retain_last => 1)"
                )
                meanwhile(lambda expire=expire: lab.sql(expire))
            yield {"id": number, "d": window.start.date()}

    lab.run(pipeline, DAY)
    made.times = 2
    lab.run(pipeline, "2026-04-26")

    assert made.expired == 2
    assert [row["count"] for row in lab.read("landed").groupBy("d").count().collect()] == [30, 30]


@pytest.mark.full
def test_s46_after_maintenance_every_row_is_there_and_the_day_is_still_fresh(lab):
    pipeline = two_tables(lab, lab.source("raw", COLUMNS, TWO_DAYS))
    lab.run(pipeline, DAY)
    lab.run(pipeline, "2026-04-26")
    lab.sql("update {space}.raw set n = n + 1, u = timestamp'2026-04-26'")
    lab.run(pipeline, from_=DAY, to="2026-04-27")
    lab.sql("update {space}.raw set n = n + 1, u = timestamp'2026-04-27' where id > 5")
    lab.run(pipeline, from_=DAY, to="2026-04-27")
    right = lab.rows("fct"), lab.rows("dim")

    shop = lab.runtime
    done = {found.table: found for found in maintain(shop, [pipeline], keep=timedelta(0))}

    assert done[lab.name("fct")].snapshots_expired > 0
    assert done[lab.name("dim")].snapshots_expired > 0
    assert (lab.rows("fct"), lab.rows("dim")) == right
    steps = lab.run(pipeline, from_=DAY, to="2026-04-27", skip_fresh=True).steps
    assert [step.status for step in steps] == ["fresh", "fresh"]
    steps = lab.run(pipeline, from_=DAY, to="2026-04-27").steps
    assert [step.status for step in steps] == ["unchanged", "unchanged"]


@pytest.mark.full
def test_s46_a_compaction_by_hand_changes_nothing_for_a_rerun(lab):
    raw = lab.source("raw", COLUMNS, TWO_DAYS)
    pipeline = Pipeline("small", grain=Day)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("fct"), partition=Day("d"), write=Overwrite()))
    def fct(raw):
        return raw.repartition(2)

    lab.run(pipeline, DAY)
    lab.sql(f"call lake.system.rewrite_data_files(table => '{lab.space}.fct', options => map('rewrite-all', 'true'))")
    versions = lab.versions("fct")

    assert lab.run(pipeline, DAY).steps[0].status == "unchanged"
    assert lab.versions("fct") == versions
    assert lab.run(pipeline, DAY, skip_fresh=True).steps[0].status == "fresh"


def gated(lab, raw, *checks, **contract):
    pipeline = Pipeline("gated", grain=Day)
    target = Table(lab.name("out"), partition=Day("d"), write=Overwrite(), gates=checks, **contract)
    pipeline.sql("out", reads={"raw": raw}, writes=target, query="select * from raw")
    return pipeline


def said_no(rows):
    return "too few" if rows.count() < 100 else None


GATES = {
    "not_null": (gates.not_null("u"), gates.not_null("n"), "n is not null", "id=3"),
    "unique": (gates.unique("id", "n"), gates.unique("kind"), "kind unique", "kind=b"),
    "accepted": (gates.accepted("kind", ["a", "b"]), gates.accepted("kind", ["a"]), "kind is one of 'a'", "kind=b"),
    "range": (gates.range("n", min=-9, max=3), gates.range("n", min=1), "n at least 1", "n=-1"),
    "row_count": (gates.row_count(min=2, max=4), gates.row_count(max=3), "row count at most 3", "it has 4"),
    "sql": (
        gates.sql("select * from staged where id > 5"),
        gates.sql("select id, kind from staged group by all having min(n) < 0"),
        "no rows from: select id, kind from staged",
        "id=2",
    ),
    "check": (gates.check(lambda rows: rows.where("id > 5")), gates.check(said_no), "check said_no", "too few"),
}


def test_gates_each_passes_and_fails_and_names_the_partition(lab):
    raw = lab.source(
        "raw",
        "id bigint, d date, n int, kind string, u int",
        # The first day is good for every gate, the second day is bad for the bad ones.
        "values (1, date'2026-04-24', 1, 'a', 0), (1, date'2026-04-25', 1, 'a', 0), (2, date'2026-04-25', -1, 'b', 0),"
        " (3, date'2026-04-25', null, 'b', 0), (4, date'2026-04-25', 3, null, 0)",
    )
    good = [passing for passing, *_ in GATES.values() if passing != GATES["row_count"][0]]
    lab.run(gated(lab, raw, *good), from_="2026-04-24", to="2026-04-26")
    lab.run(gated(lab, raw, GATES["row_count"][0]), DAY)

    # One after the other; `make test` takes some at once
    names, size = [*GATES], 1 if FULL else 3
    for group in (names[n : n + size] for n in range(0, len(names), size)):
        with lab.untouched("out"), pytest.raises(GateFailed) as stopped:
            lab.run(gated(lab, raw, *(GATES[name][1] for name in group)), from_="2026-04-24", to="2026-04-26")
        said = str(stopped.value)
        for name in group:
            _, _, text, sample = GATES[name]
            where = "2026-04-24" if name == "check" else DAY
            _, found, after = said.partition(f"{lab.name('out')}, {where}: the gate “{text}")
            assert found, name
            assert sample in after.partition("the gate “")[0], name
        assert "the last good version stays readable" in said
        assert stopped.value.exit_code == 3


def test_s50_a_number_that_is_off_stops_before_anyone_sees_it(lab):
    raw = lab.source("raw", COLUMNS)
    pipeline = gated(lab, raw, gates.row_count_change(0.3))
    sizes = {21: 100, 22: 100, 23: 100, 24: 100, 25: 141}
    days = (f"select id, date'2026-04-{day}', 1, null from range({rows})" for day, rows in sizes.items())
    lab.insert("raw", " union all ".join(days))

    # The first three days have nothing to be compared with, and say so.
    step = lab.run(pipeline, "2026-04-21").steps[0]
    assert "not judged" in step.details["remarks"][0]
    for day in ("2026-04-22", "2026-04-23", "2026-04-24"):
        lab.run(pipeline, day)
    with lab.untouched("out"), pytest.raises(GateFailed) as stopped:
        lab.run(pipeline, DAY)

    assert "2026-04-25: the gate “row count within ±30% of the usual”" in str(stopped.value)
    assert "it has 141" in str(stopped.value)
    assert "+41%" in str(stopped.value)
    # A day that is known is compared with itself.
    lab.sql("delete from {space}.raw where d = date'2026-04-24' and id >= 60")
    with pytest.raises(GateFailed, match="-40%"):
        lab.run(pipeline, "2026-04-24")
    lab.sql("delete from {space}.raw where d = date'2026-04-25' and id >= 120")
    assert lab.run(pipeline, DAY).steps[0].rows == 120


def shaped(lab, query, raw):
    pipeline = Pipeline("shaped", grain=Day)
    target = Table(lab.name("out"), partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("out", reads={"raw": raw}, writes=target, query=query)
    return pipeline


def test_s51_a_dropped_or_retyped_column_is_refused_with_the_statement(lab):
    raw = lab.source("raw", COLUMNS, TWO_DAYS)
    lab.run(shaped(lab, "select id, d, n from raw", raw), DAY)
    name = lab.name("out").split(".")
    sql = ".".join(f"`{part}`" for part in name)

    for query, statement in {
        "select id, d from raw": f"ALTER TABLE {sql} DROP COLUMN `n`",
        "select id, d, cast(n as bigint) as n from raw": f"ALTER TABLE {sql} ALTER COLUMN `n` TYPE bigint",
        "select id, d, cast(n as string) as n from raw": "cast(`n` as int)",
    }.items():
        with lab.untouched("out"), pytest.raises(SchemaRefused) as refused:
            lab.run(shaped(lab, query, raw), DAY)
        assert statement in refused.value.next_step

    lab.sql(f"ALTER TABLE {sql} ALTER COLUMN `n` TYPE bigint")
    lab.run(shaped(lab, "select id, d, cast(n as bigint) as n from raw", raw), DAY)
    assert dict(lab.read("out").dtypes)["n"] == "bigint"


def test_s53_personal_values_stay_out_of_errors_ledger_and_logs(lab, caplog, capfd):
    secret, key = "ana.secret@example.org", "Ana Geheim"
    raw = lab.source(
        "people",
        "name string, email string, n int, d date",
        f"values ('{key}', '{secret}', 1, date'{DAY}'), ('{key}', '{secret}', 2, date'{DAY}'),"
        f" (null, '{secret}', 3, date'{DAY}')",
    )
    told, texts = [], []

    def refused(query, kind, *checks, write=None, tenant=()):
        pipeline = Pipeline("people", grain=Day)
        target = Table(
            lab.name("out"),
            partition=None if isinstance(write, Merge) else Day("d"),
            key=["name"],
            personal=["name", "email"],
            write=write or Overwrite(),
            gates=checks,
        )
        pipeline.sql("out", reads={"people": raw}, writes=target, query=query)
        with pytest.raises(kind) as stopped:
            lab.run(pipeline, DAY, listener=told.append)
        lab.spark.sql(f"drop table if exists {lab.name('out')}")
        texts.append(str(stopped.value))
        return str(stopped.value)

    one = "select distinct name, email, 1 as n, d from people where name is not null"
    said = refused("select * from people where name is not null", KeyViolation)
    assert f"#{key_hash(key)[:12]}" in said
    assert "name=null" in refused("select * from people", KeyViolation)
    assert "email=(personal), n=1" in refused("select name, email, n, date'2020-01-01' as d from people", OutOfScope)
    said = refused(
        one,
        GateFailed,
        gates.accepted("email", ["x"]),
        gates.unique("d"),
        gates.not_null("n"),
        gates.range("n", min=2),
        gates.sql("select email as contact, upper(name) as who, n from staged"),
        gates.check(lambda rows: rows.select(F.struct("name", "email").alias("both"))),
    )
    assert said.count("the gate “") == 4
    refused(
        "select name, email, n, timestamp'2026-01-01' as u from people where n < 3",
        MergeRefused,
        write=Merge(version="u"),
    )
    refused("select name, cast(email as int) as email, n, d from people where n = 1", StepFailed)
    refused(
        "select name, email, cast(raise_error(concat('bad row: ', email, name)) as int) as n, d from people", StepFailed
    )

    everywhere = [*texts, *(str(event) for event in told), caplog.text, *capfd.readouterr()]
    everywhere += [file.read_bytes().decode("latin-1") for file in lab.folder.iterdir() if file.is_file()]
    assert any("ledger" in file.name for file in lab.folder.iterdir())
    for text in everywhere:
        for hidden in (secret, secret.upper(), key, key.upper(), "geheim"):
            assert hidden not in text, text[max(0, text.find(hidden) - 300) : text.find(hidden) + 60]


def test_undo_restores_the_scope_and_only_the_scope(lab):
    raw = lab.source("raw", COLUMNS, TWO_DAYS)
    pipeline = two_tables(lab, raw)
    first = lab.run(pipeline, DAY)
    right = lab.rows("fct"), lab.rows("dim")
    lab.sql("update {space}.raw set n = n + 100, u = timestamp'2026-04-26'")
    lab.insert("raw", f"values (50, date'{DAY}', 50, timestamp'2026-04-26')")
    second = lab.run(pipeline, DAY)
    wrong = lab.rows("fct"), lab.rows("dim")
    assert {step.status for step in lab.run(pipeline, DAY).steps} == {"unchanged"}
    lab.run(pipeline, "2026-04-26", steps=["fct"])
    other_day = lab.files("fct", "partition.d = date'2026-04-26'")

    shop = lab.runtime
    planned = undo(shop, {"two": pipeline}, second.run, dry_run=True)
    assert [(found.status, found.rows) for found in planned] == [("would be restored", 4), ("would be restored", 4)]
    assert (lab.rows("fct", f"d = date'{DAY}'"), lab.rows("dim")) == wrong
    done = undo(shop, {"two": pipeline}, second.run)

    assert [found.status for found in done] == ["restored", "restored"]
    assert (lab.rows("fct", f"d = date'{DAY}'"), lab.rows("dim")) == right
    assert lab.files("fct", "partition.d = date'2026-04-26'") == other_day
    assert lab.refs("fct") == lab.refs("dim") == ["main"]
    assert lab.ledger.leases.list() == []
    # Undone once, it is not undone again; and what came first is no longer what is there.
    with pytest.raises(UsageError, match="has already been undone"):
        undo(shop, {"two": pipeline}, second.run)
    with pytest.raises(StoreRefused, match="was changed by"):
        undo(shop, {"two": pipeline}, first.run)
    # An undone day is not fresh: the next run makes it anew.
    assert [step.status for step in lab.run(pipeline, DAY, skip_fresh=True).steps] == ["published", "published"]
    assert (lab.rows("fct", f"d = date'{DAY}'"), lab.rows("dim")) == wrong


def test_undo_is_refused_when_somebody_changed_the_day_since(lab):
    pipeline = two_tables(lab, lab.source("raw", COLUMNS, TWO_DAYS))
    run = lab.run(pipeline, DAY).run
    lab.sql("delete from {space}.fct where id = 0")
    unchanged = lab.run(pipeline, "2026-04-30").run

    shop = lab.runtime
    with lab.untouched("fct", "dim"):
        with pytest.raises(StoreRefused, match="was changed by another writer") as refused:
            undo(shop, {"two": pipeline}, run)
        assert "nothing was undone" in refused.value.unchanged
        with pytest.raises(UsageError, match="published nothing"):
            undo(shop, {"two": pipeline}, unchanged)


@pytest.mark.full
def test_the_first_run_of_a_day_can_be_undone_to_nothing(lab):
    pipeline = two_tables(lab, lab.source("raw", COLUMNS, TWO_DAYS))
    run = lab.run(pipeline, DAY).run

    shop = lab.runtime
    undo(shop, {"two": pipeline}, run)

    assert lab.rows("fct") == lab.rows("dim") == []


def test_a_step_in_a_unit_test_gets_the_framework_around_it(lab):
    pipeline = Pipeline("tested", grain=Day)
    raw = Table("lake.x.raw", partition=Day("d"))
    target = Table("lake.x.out", partition=Day("d"), key=["id"], write=Overwrite(), gates=[gates.range("n", max=100)])

    @pipeline.step(reads={"raw": raw}, writes=target)
    def out(raw):
        return raw.withColumn("n", F.col("n") + 1)

    rows = lab.spark.sql(f"select id, d, n from (values (1, date'{DAY}', 5), (2, date'2026-04-26', 5)) as t(id, d, n)")

    assert out(rows).count() == 2  # the plain function
    found = testing.run(out, DAY, raw=rows)
    assert [(row["id"], row["n"]) for row in found.collect()] == [(1, 6)]
    with pytest.raises(KeyViolation, match="id=1"):
        testing.run(out, DAY, raw=rows.union(rows))
    with pytest.raises(GateFailed, match="n at most 100"):
        testing.run(out, DAY, raw=rows.withColumn("n", F.lit(100)))
    with pytest.raises(UsageError, match="reads raw; got nothing"):
        testing.run(out, DAY)
    with pytest.raises(UsageError, match="is not a step"):
        testing.run(len, DAY)

    clocked = Pipeline("clocked", grain=Day)
    step = clocked.sql("out", reads={"raw": raw}, writes=target, query="select *, now() as x from raw")
    with pytest.raises(NotDeterministic):
        testing.run(step, DAY, raw=rows)
    moved = Pipeline("moved", grain=Day)
    step = moved.sql("out", reads={"raw": raw}, writes=target, query="select id, d + 1 as d, n from raw")
    with pytest.raises(OutOfScope, match="2026-04-26"):
        testing.run(step, DAY, raw=rows)
