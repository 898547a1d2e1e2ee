"""Whole pipelines on Delta: what is special there about reruns, people's own commands, columns and names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from tests.support.counting import java_calls
from tests.support.tables import extracting
from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Retry, Table, Whole, failpoints
from twice.engine.operations.maintain import maintain
from twice.engine.operations.undo import undo
from twice.errors import Conflict, MergeRefused, OutOfScope, SchemaRefused, StoreRefused, TransientError
from twice.model.names import TableName, quote
from twice.store.delta import jvm
from twice.store.delta.locations import Locations
from twice.store.delta.settings import Settings

pytestmark = pytest.mark.spark

BEFORE, DAY, AFTER = "2026-04-24", "2026-04-25", "2026-04-26"
COLUMNS = "id bigint, d date, n int, u timestamp"


def rows_of(day: str, count: int, n: int = 0, *, first: int = 0) -> str:
    return (
        f"select id + {first} as id, date'{day}' as d, cast(id + {n} as int) as n, "
        f"timestamp'2026-05-01' + make_interval(0, 0, 0, {n}) as u from range({count})"
    )


class DeltaTables:
    """The test's Delta tables, as people outside of twice see and touch them."""

    def __init__(self, lab) -> None:
        self.lab, self.spark = lab, lab.spark
        self.places = Locations(Settings(str(lab.config.root / "delta")))
        self.query = rows_of(DAY, 0)

    def name(self, table: str = "t") -> str:
        return f"warehouse.{self.lab.space}.{table}"

    def path(self, table: str = "t") -> Path:
        return self.lab.config.root / self.places.path(TableName.parse(self.name(table)))

    def sql(self, text: str, table: str = "t"):
        """Run SQL by hand; {t} is the table."""
        name = self.places.sql(TableName.parse(self.name(table)))
        return self.spark.sql(text.replace("{t}", name)).collect()

    def rows(self, where: str = "true", table: str = "t") -> list[tuple]:
        return sorted(tuple(row)[:3] for row in self.sql(f"select * from {{t}} where {where}", table))

    def log(self, table: str = "t") -> list[str]:
        return sorted(file.name for file in self.path(table).glob("_delta_log/*.json"))

    def commit(self, version: str, table: str = "t") -> list[dict]:
        text = (self.path(table) / "_delta_log" / f"{int(version):020d}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def files(self, where: str = "true", table: str = "t") -> set[str]:
        return {row[0] for row in self.sql(f"select distinct _metadata.file_path from {{t}} where {where}", table)}

    def left_over(self, table: str = "t") -> list[str]:
        """List marks, and staged files that no version ever had."""
        path = self.path(table)
        known = {
            action["add"]["path"]
            for version in range(len(self.log(table)))
            for action in self.commit(str(version), table)
            if "add" in action
        }
        staged = {str(file.relative_to(path)) for file in path.glob("twice-*/**/*.parquet")}
        return [*(mark.name for mark in (path / "_twice").glob("[0-9]*")), *(staged - known)]

    def feed(self, query: str) -> None:
        self.query = query

    def pipeline(self, table: str = "t", **contract) -> Pipeline:
        target = Table(self.name(table), **contract or {"partition": Day("d"), "key": ["id"], "write": Overwrite()})
        return extracting(target, lambda spark, window: spark.sql(self.query), name="delta", retry=Retry(attempts=1))

    def run(self, pipeline: Pipeline, for_: str = DAY, **how) -> str:
        return self.lab.run(pipeline, for_, **how).steps[0].status

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Count the Spark jobs and the calls to Java of a block, and the commits of its table."""
        found: dict[str, int] = {}
        jobs, commits = self.lab.jobs(), len(self.log())
        with java_calls(self.spark) as sent:
            yield found
        found |= {"jobs": self.lab.jobs() - jobs, "commits": len(self.log()) - commits, "calls": len(sent)}

    @contextmanager
    def untouched(self, table: str = "t") -> Iterator[None]:
        before = self.rows(table=table), self.log(table)
        yield
        assert (self.rows(table=table), self.log(table)) == before
        assert self.left_over(table) == []
        assert self.lab.ledger.leases.list() == []


@pytest.fixture
def tables(lab) -> DeltaTables:
    return DeltaTables(lab)


@pytest.mark.full
def test_s02_a_rerun_is_no_new_commit_and_an_empty_day_is_one(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(BEFORE, 3))
    assert tables.run(pipeline, BEFORE) == "published"
    tables.feed(rows_of(DAY, 5, first=10))
    assert tables.run(pipeline) == "published"
    # The same again: no commit, nothing left over.
    with tables.untouched():
        assert tables.run(pipeline) == "unchanged"
        assert tables.run(pipeline, skip_fresh=True) == "fresh"
    # Other content: one commit, which says who made it; the neighbour keeps its very files.
    neighbour, commits = tables.files(f"d = '{BEFORE}'"), len(tables.log())
    tables.feed(rows_of(DAY, 4, 7, first=10))
    done = tables.lab.run(pipeline, DAY)
    assert len(tables.log()) == commits + 1
    said = tables.commit(done.steps[0].version)
    noted = json.loads(said[0]["commitInfo"]["userMetadata"])
    assert noted["twice.step"] == "delta.fed"
    assert noted["twice.run"] == done.run
    token = next(action["txn"] for action in said if "txn" in action)
    assert str(token["version"]) == noted["twice.token"]
    assert "spark.databricks.delta.commitInfo.userMetadata" not in dict(tables.spark.conf.getAll)
    # No rows any more: the day is empty, in one commit.
    tables.feed(rows_of(DAY, 0))
    assert tables.run(pipeline) == "published"
    assert tables.rows() == [(number, date(2026, 4, 24), number) for number in range(3)]
    assert tables.files() == neighbour
    # A day that never had rows makes no version.
    with tables.untouched():
        assert tables.run(pipeline, AFTER) == "unchanged"


def test_a_small_table_takes_no_spark_job_beside_those_for_its_rows(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(DAY, 3))
    tables.run(pipeline)
    tables.feed(rows_of(DAY, 3, 1))
    # One job writes the rows, others read them back: their keys and digest, with adaptive plans in three.
    with tables.counted() as changed:
        assert tables.run(pipeline) == "published"
    assert changed["jobs"] <= 4
    assert changed["commits"] == 1
    with tables.counted() as unchanged:
        assert tables.run(pipeline) == "unchanged"
    assert unchanged["jobs"] <= 4
    assert unchanged["commits"] == 0
    assert changed["calls"] < 1200
    assert unchanged["calls"] < 1200


@pytest.mark.full
def test_what_is_read_from_a_checksum_is_what_the_log_says(tables):
    merged = tables.pipeline("m", key=["id"], write=Merge(version="u"))
    pipeline = tables.pipeline()
    for count in (3, 0, 4):
        tables.feed(rows_of(DAY, count, count))
        tables.run(pipeline)
    tables.feed(rows_of(DAY, 4))
    tables.run(merged)
    tables.feed(rows_of(DAY, 2, 3))
    tables.run(merged)
    for table, rows in (("t", 4), ("m", 4)):
        # Delta's own checks: tokens and totals, then the list of files, each from the log.
        log = jvm.log_at(tables.spark, tables.places.path(TableName.parse(tables.name(table))))
        live = jvm.snapshot(tables.spark, log)
        assert live.validateChecksum(getattr(live, "validateChecksum$default$1")())
        assert live.validateFileListAgainstCRC(live.checksumOpt().get(), jvm.none(tables.spark))
        assert len(tables.rows(table=table)) == rows
    # Another writer leaves no checksum: the log is read instead.
    for file in tables.path().glob("_delta_log/*.crc"):
        file.unlink()
    jvm.logs(tables.spark).clearCache()
    with tables.untouched():
        tables.feed(rows_of(DAY, 4, 4))
        assert tables.run(pipeline) == "unchanged"
    tables.feed(rows_of(DAY, 2))
    assert tables.run(pipeline) == "published"
    assert len(tables.rows()) == 2


@pytest.mark.full
def test_s08_a_failure_before_the_commit_leaves_nothing_behind(tables, monkeypatch):
    pipeline = tables.pipeline()
    tables.feed(rows_of(DAY, 5))
    tables.run(pipeline)
    tables.feed(rows_of(DAY, 6, 1))
    failpoints.reset()
    monkeypatch.setenv("TWICE_FAILPOINT", "delta.ready:raise")
    with tables.untouched(), pytest.raises(TransientError):
        tables.run(pipeline)
    assert tables.run(pipeline) == "published"
    assert len(tables.rows()) == 6
    assert tables.left_over() == []


@pytest.mark.full
def test_s09_a_whole_table_goes_forward_only(tables):
    pipeline = tables.pipeline(key=["id"], write=Whole())
    tables.feed(rows_of(DAY, 4))
    assert tables.run(pipeline, DAY) == "published"
    assert tables.run(pipeline, BEFORE) == "superseded"
    # The same content for a newer window is noted, so that the older one cannot come back; no file changes.
    files = tables.files()
    assert tables.run(pipeline, AFTER) == "unchanged"
    assert tables.files() == files
    tables.feed(rows_of(DAY, 2))
    assert tables.run(pipeline, DAY) == "superseded"
    assert tables.run(pipeline, AFTER) == "published"
    assert len(tables.rows()) == 2


@pytest.mark.full
def test_s11_rows_of_another_day_or_of_none_are_refused_with_samples(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(DAY, 2))
    tables.run(pipeline)
    tables.feed(f"{rows_of(DAY, 2)} union all {rows_of(AFTER, 3)} union all select 99, null, 1, null")
    with tables.untouched(), pytest.raises(OutOfScope, match=r"4 rows outside its scope.*d=2026-04-26; d=null"):
        tables.run(pipeline)


@pytest.mark.full
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["deletion-vectors", "no-vectors"])
def test_s12_a_merge_rewrites_only_the_files_that_it_changes(tables, vectors):
    pipeline = tables.pipeline(key=["id"], write=Merge(version="u"))
    tables.feed(rows_of(DAY, 4))
    tables.run(pipeline)
    tables.sql(f"alter table {{t}} set tblproperties ('delta.enableDeletionVectors' = '{vectors}')")
    tables.feed(rows_of(DAY, 4, first=100))
    tables.run(pipeline, AFTER)
    # Somebody deletes a row by hand: with deletion vectors the file stays and a vector hides the row.
    tables.sql("delete from {t} where id = 3")
    kept = tables.files("id >= 100")
    # One row is newer, one is new, one is the same; the deleted one is not in this delivery.
    tables.feed(
        f"{rows_of(DAY, 1)} union all select 1, date'{DAY}', 77, timestamp'2027-01-01' "
        f"union all select 9, date'{DAY}', 9, timestamp'2026-05-01'"
    )
    assert tables.run(pipeline) == "published"
    assert {row[0]: row[2] for row in tables.rows()} == {0: 0, 1: 77, 2: 2, 9: 9, 100: 0, 101: 1, 102: 2, 103: 3}
    assert tables.files("id >= 100") == kept
    with tables.untouched():
        assert tables.run(pipeline) == "unchanged"
    # An older version does not come back.
    tables.feed(f"select 1L as id, date'{DAY}' as d, 5 as n, timestamp'2026-05-02' as u")
    with tables.untouched():
        assert tables.run(pipeline, BEFORE) == "unchanged"


@pytest.mark.full
def test_s15_an_insert_only_key_is_written_once(tables):
    pipeline = tables.pipeline(partition=Day("d"), key=["id"], write=InsertOnly())
    tables.feed(rows_of(DAY, 3))
    assert tables.run(pipeline) == "published"
    files = tables.files()
    tables.feed(rows_of(DAY, 5))
    assert tables.run(pipeline) == "published"
    assert files < tables.files()
    assert len(tables.rows()) == 5
    tables.feed(rows_of(DAY, 5, 1))
    with tables.untouched(), pytest.raises(MergeRefused, match="in the table with different content"):
        tables.run(pipeline)


@pytest.mark.full
def test_s44_what_people_do_by_hand_is_noticed_and_repaired(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(DAY, 4))
    tables.run(pipeline)
    older = len(tables.log()) - 1
    tables.feed(rows_of(DAY, 6, 1))
    tables.run(pipeline)
    right = tables.rows()
    for statement in ("delete from {t} where id = 2", f"restore table {{t}} to version as of {older}"):
        tables.sql(statement)
        assert tables.rows() != right
        assert tables.run(pipeline, skip_fresh=True) == "published", statement
        assert tables.rows() == right


@pytest.mark.full
def test_s46_optimize_is_no_conflict_and_somebody_elses_rows_are(tables):
    pipeline = tables.pipeline()
    tables.feed(f"select /*+ repartition(2) */ * from ({rows_of(DAY, 8)})")
    tables.run(pipeline)
    done = []

    def meanwhile(event):
        if event.state == "staged" and len(done) == 0:
            tables.sql("optimize {t}")
            done.append(len(tables.log()))

    tables.feed(rows_of(DAY, 5, 1))
    before = len(tables.log())
    assert tables.run(pipeline, listener=meanwhile) == "published"
    assert done == [before + 1]
    assert len(tables.rows()) == 5

    def interfering(event):
        if event.state == "staged" and len(done) == 1:
            done.append(tables.sql(f"insert into {{t}} values (99, date'{DAY}', 1, null)"))

    tables.feed(rows_of(DAY, 3, 2))
    with pytest.raises(Conflict, match="by another writer between claim and publish"):
        tables.run(pipeline, listener=interfering)
    assert len(tables.rows()) == 6
    # Rows of another day are nobody's conflict.
    done.pop()

    def elsewhere(event):
        if event.state == "staged" and len(done) == 1:
            done.append(tables.sql(f"insert into {{t}} values (98, date'{AFTER}', 1, null)"))

    assert tables.run(pipeline, listener=elsewhere) == "published"
    assert len(tables.rows(f"d = '{DAY}'")) == 3
    assert len(tables.rows()) == 4
    # Compacted by hand after a publish: the rerun changes nothing.
    tables.sql("optimize {t}")
    with tables.untouched():
        assert tables.run(pipeline) == "unchanged"


@pytest.mark.full
def test_s51_a_new_column_comes_with_its_first_rows_and_others_are_refused(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(BEFORE, 2))
    tables.run(pipeline, BEFORE)
    # A refused attempt does not leave its column behind.
    wider = f"select *, id * 2 as more from ({rows_of(DAY, 2, first=10)})"
    tables.feed(f"{wider} union all select 1, null, 1, null, 1")
    with tables.untouched(), pytest.raises(OutOfScope):
        tables.run(pipeline)
    tables.feed(wider.replace("more", "`m (ore)`"))
    with tables.untouched(), pytest.raises(SchemaRefused, match=r"'m \(ore\)'") as mapped:
        tables.run(pipeline)
    assert "'delta.columnMapping.mode'='name'" in mapped.value.next_step
    tables.feed(wider)
    assert tables.run(pipeline) == "published"
    assert {row["id"]: row["more"] for row in tables.sql("select id, more from {t}")} == {
        0: None,
        1: None,
        10: 20,
        11: 22,
    }
    tables.feed(rows_of(DAY, 2))
    with tables.untouched(), pytest.raises(SchemaRefused, match="more, which the step no longer returns") as dropped:
        tables.run(pipeline)
    assert "DROP COLUMN `more`" in dropped.value.next_step
    tables.feed(f"select id, d, cast(n as string) n, u, 1L as more from ({rows_of(DAY, 2)})")
    with tables.untouched(), pytest.raises(SchemaRefused, match="column n is int, but the step returns string"):
        tables.run(pipeline)


@pytest.mark.full
def test_names_may_hold_quotes_spaces_and_unicode(tables):
    odd = quote("o'rder`s @v1 é 表")
    table, column, day = odd, "na`me, of (it)", "d`ay é"
    pipeline = tables.pipeline(table, partition=Day(day), dimensions=["ten'ant"], key=[column], write=Overwrite())
    value = "it's `a\\b\"%20/=é"
    tables.feed(
        f"select id as {quote(column)}, date'{DAY}' as {quote(day)}, {json.dumps(value)} as `ten'ant` from range(3)"
    )
    assert tables.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert len(tables.rows(table=table)) == 3
    with tables.untouched(table):
        assert tables.run(pipeline, dimensions={"ten'ant": value}) == "unchanged"
    # A new column of such a table gets a name of its own in the files, too.
    tables.feed(tables.query.replace("select id", "select 1 as `x y`, id"))
    assert tables.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert [row[0] for row in tables.sql("select `x y` from {t}", table)] == [1, 1, 1]
    tables.feed(tables.query.replace("range(3)", "range(0)"))
    assert tables.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert tables.rows(table=table) == []


@pytest.mark.full
def test_a_run_is_undone_and_leftovers_are_maintained(tables):
    pipeline = tables.pipeline()
    tables.feed(rows_of(DAY, 3))
    tables.run(pipeline)
    right = tables.rows()
    tables.feed(rows_of(DAY, 5, 1))
    wrong = tables.lab.run(pipeline, DAY)
    shop = tables.lab.runtime
    assert [done.status for done in undo(shop, {"delta": pipeline}, wrong.run)] == ["restored"]
    assert tables.rows() == right
    done = maintain(shop, [pipeline], keep=tables.lab.config.lease)
    assert done[0].branches_dropped == 0
    assert tables.rows() == right
    assert tables.left_over() == []


def test_a_live_table_that_is_not_its_contract_is_refused(tables):
    pipeline = tables.pipeline()
    tables.sql(f"create table {{t}} ({COLUMNS}) using delta partitioned by (n)")
    tables.feed(rows_of(DAY, 2))
    with tables.untouched(), pytest.raises(StoreRefused, match="is partitioned by n, but its contract says d"):
        tables.run(pipeline)
    tables.sql(
        f"create table {{t}} ({COLUMNS}) using delta partitioned by (d) tblproperties ('delta.appendOnly' = 'true')",
        "log",
    )
    with pytest.raises(StoreRefused, match="append-only"):
        tables.run(tables.pipeline("log"))
    assert tables.run(tables.pipeline("log", partition=Day("d"), key=["id"], write=InsertOnly())) == "published"
