"""Whole pipelines on Delta: what is special there about reruns, people's own commands, columns and names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

import pytest

from twice import Day, InsertOnly, Merge, Overwrite, Pipeline, Retry, Table, Whole, failpoints
from twice.api import workshop
from twice.engine.maintain import maintain
from twice.engine.undo import undo
from twice.errors import Conflict, MergeRefused, OutOfScope, SchemaRefused, StoreRefused, TransientError
from twice.model.names import TableName, quote
from twice.store.delta import jvm
from twice.store.delta.places import Places
from twice.store.delta.settings import Settings

pytestmark = pytest.mark.spark

BEFORE, DAY, AFTER = "2026-04-24", "2026-04-25", "2026-04-26"
COLUMNS = "id bigint, d date, n int, u timestamp"


def rows_of(day: str, count: int, n: int = 0, *, first: int = 0) -> str:
    return (
        f"select id + {first} as id, date'{day}' as d, cast(id + {n} as int) as n, "
        f"timestamp'2026-05-01' + make_interval(0, 0, 0, {n}) as u from range({count})"
    )


class Yard:
    """The test's Delta tables, as people outside of twice see and touch them."""

    def __init__(self, lab) -> None:
        self.lab, self.spark = lab, lab.spark
        self.places = Places(Settings(str(lab.config.root / "delta")))
        self._query = rows_of(DAY, 0)

    def name(self, table: str = "t") -> str:
        return f"warehouse.{self.lab.space}.{table}"

    def sql(self, text: str, table: str = "t"):
        """Run SQL by hand; {t} is the table."""
        name = self.places.sql(TableName.parse(self.name(table)))
        return self.spark.sql(text.replace("{t}", name)).collect()

    def rows(self, where: str = "true", table: str = "t") -> list[tuple]:
        return sorted(tuple(row)[:3] for row in self.sql(f"select * from {{t}} where {where}", table))

    def log(self, table: str = "t") -> list[str]:
        path = self.places.path(TableName.parse(self.name(table)))
        return sorted(file.name for file in (self.lab.config.root / path / "_delta_log").glob("*.json"))

    def commit(self, version: str, table: str = "t") -> list[dict]:
        path = self.places.path(TableName.parse(self.name(table)))
        text = (self.lab.config.root / path / "_delta_log" / f"{int(version):020d}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def files(self, where: str = "true", table: str = "t") -> set[str]:
        return {row[0] for row in self.sql(f"select distinct _metadata.file_path from {{t}} where {where}", table)}

    def left_over(self, table: str = "t") -> list[str]:
        """List marks, and staged files that no version ever had."""
        path = self.lab.config.root / self.places.path(TableName.parse(self.name(table)))
        known = {
            action["add"]["path"]
            for version in range(len(self.log(table)))
            for action in self.commit(str(version), table)
            if "add" in action
        }
        staged = {str(file.relative_to(path)) for file in path.glob("twice-*/**/*.parquet")}
        return [*(mark.name for mark in (path / "_twice").glob("[0-9]*")), *(staged - known)]

    def feed(self, query: str) -> None:
        self._query = query

    def pipeline(self, table: str = "t", *, retry: Retry | None = None, **contract) -> Pipeline:
        made = Pipeline("yard", grain=Day)
        contract = contract or {"partition": Day("d"), "key": ["id"], "write": Overwrite()}

        @made.extract(writes=Table(self.name(table), **contract), retry=retry or Retry(attempts=1))
        def fed(window, spark):
            return spark.sql(self._query)

        return made

    def run(self, pipeline: Pipeline, for_: str = DAY, **how) -> str:
        return self.lab.run(pipeline, for_, **how).steps[0].status

    @contextmanager
    def counted(self, monkeypatch) -> Iterator[dict[str, int]]:
        """Count the Spark jobs and the calls to Java of a block, and the commits of its table."""
        scheduler, client = self.spark.sparkContext._jsc.sc().dagScheduler(), self.spark._jvm._gateway_client
        send, sent = client.send_command, []

        def counting(command, *how, **named):
            if not command.startswith("m\nd\n"):  # what Python forgets is forgotten in Java whenever it comes to it
                sent.append(command)
            return send(command, *how, **named)

        found: dict[str, int] = {}
        jobs, commits = scheduler.numTotalJobs(), len(self.log())
        with monkeypatch.context() as patched:
            patched.setattr(client, "send_command", counting)
            yield found
        found |= {"jobs": scheduler.numTotalJobs() - jobs, "commits": len(self.log()) - commits, "calls": len(sent)}

    @contextmanager
    def untouched(self, table: str = "t") -> Iterator[None]:
        before = self.rows(table=table), self.log(table)
        yield
        assert (self.rows(table=table), self.log(table)) == before
        assert self.left_over(table) == []
        assert self.lab.ledger.leases() == []


@pytest.fixture
def yard(lab) -> Yard:
    return Yard(lab)


@pytest.mark.full
def test_s02_a_rerun_is_no_new_commit_and_an_empty_day_is_one(yard):
    pipeline = yard.pipeline()
    yard.feed(rows_of(BEFORE, 3))
    assert yard.run(pipeline, BEFORE) == "published"
    yard.feed(rows_of(DAY, 5, first=10))
    assert yard.run(pipeline) == "published"
    # The same again: no commit, nothing left over.
    with yard.untouched():
        assert yard.run(pipeline) == "unchanged"
        assert yard.run(pipeline, skip_fresh=True) == "fresh"
    # Other content: one commit, which says who made it; the neighbour keeps its very files.
    neighbour, commits = yard.files(f"d = '{BEFORE}'"), len(yard.log())
    yard.feed(rows_of(DAY, 4, 7, first=10))
    done = yard.lab.run(pipeline, DAY)
    assert len(yard.log()) == commits + 1
    said = yard.commit(done.steps[0].version)
    noted = json.loads(said[0]["commitInfo"]["userMetadata"])
    assert noted["twice.step"] == "yard.fed"
    assert noted["twice.run"] == done.run
    token = next(action["txn"] for action in said if "txn" in action)
    assert str(token["version"]) == noted["twice.token"]
    assert "spark.databricks.delta.commitInfo.userMetadata" not in dict(yard.spark.conf.getAll)
    # No rows any more: the day is empty, in one commit.
    yard.feed(rows_of(DAY, 0))
    assert yard.run(pipeline) == "published"
    assert yard.rows() == [(number, date(2026, 4, 24), number) for number in range(3)]
    assert yard.files() == neighbour
    # A day that never had rows makes no version.
    with yard.untouched():
        assert yard.run(pipeline, AFTER) == "unchanged"


def test_a_small_table_takes_no_spark_job_beside_those_for_its_rows(yard, monkeypatch):
    pipeline = yard.pipeline()
    yard.feed(rows_of(DAY, 3))
    yard.run(pipeline)
    yard.feed(rows_of(DAY, 3, 1))
    # One job writes the rows, others read them back: their keys and digest, with adaptive plans in three.
    with yard.counted(monkeypatch) as changed:
        assert yard.run(pipeline) == "published"
    assert changed["jobs"] <= 4
    assert changed["commits"] == 1
    with yard.counted(monkeypatch) as unchanged:
        assert yard.run(pipeline) == "unchanged"
    assert unchanged["jobs"] <= 4
    assert unchanged["commits"] == 0
    assert changed["calls"] < 1200
    assert unchanged["calls"] < 1200


def test_what_is_read_from_a_checksum_is_what_the_log_says(yard):
    merged = yard.pipeline("m", key=["id"], write=Merge(version="u"))
    pipeline = yard.pipeline()
    for count in (3, 0, 4):
        yard.feed(rows_of(DAY, count, count))
        yard.run(pipeline)
    yard.feed(rows_of(DAY, 4))
    yard.run(merged)
    yard.feed(rows_of(DAY, 2, 3))
    yard.run(merged)
    for table, rows in (("t", 4), ("m", 4)):
        # Delta's own checks: tokens and totals, then the list of files, each from the log.
        log = jvm.log_at(yard.spark, yard.places.path(TableName.parse(yard.name(table))))
        live = jvm.snapshot(yard.spark, log)
        assert live.validateChecksum(getattr(live, "validateChecksum$default$1")())
        assert live.validateFileListAgainstCRC(live.checksumOpt().get(), jvm.none(yard.spark))
        assert len(yard.rows(table=table)) == rows
    # Another writer leaves no checksum: the log is read instead.
    path = yard.lab.config.root / yard.places.path(TableName.parse(yard.name()))
    for file in path.glob("_delta_log/*.crc"):
        file.unlink()
    jvm.logs(yard.spark).clearCache()
    with yard.untouched():
        yard.feed(rows_of(DAY, 4, 4))
        assert yard.run(pipeline) == "unchanged"
    yard.feed(rows_of(DAY, 2))
    assert yard.run(pipeline) == "published"
    assert len(yard.rows()) == 2


@pytest.mark.full
def test_s08_a_failure_before_the_commit_leaves_nothing_behind(yard, monkeypatch):
    pipeline = yard.pipeline()
    yard.feed(rows_of(DAY, 5))
    yard.run(pipeline)
    yard.feed(rows_of(DAY, 6, 1))
    failpoints.reset()
    monkeypatch.setenv("TWICE_FAILPOINT", "delta.ready:raise")
    with yard.untouched(), pytest.raises(TransientError):
        yard.run(pipeline)
    assert yard.run(pipeline) == "published"
    assert len(yard.rows()) == 6
    assert yard.left_over() == []


@pytest.mark.full
def test_s09_a_whole_table_goes_forward_only(yard):
    pipeline = yard.pipeline(key=["id"], write=Whole())
    yard.feed(rows_of(DAY, 4))
    assert yard.run(pipeline, DAY) == "published"
    assert yard.run(pipeline, BEFORE) == "superseded"
    # The same content for a newer window is noted, so that the older one cannot come back; no file changes.
    files = yard.files()
    assert yard.run(pipeline, AFTER) == "unchanged"
    assert yard.files() == files
    yard.feed(rows_of(DAY, 2))
    assert yard.run(pipeline, DAY) == "superseded"
    assert yard.run(pipeline, AFTER) == "published"
    assert len(yard.rows()) == 2


@pytest.mark.full
def test_s11_rows_of_another_day_or_of_none_are_refused_with_samples(yard):
    pipeline = yard.pipeline()
    yard.feed(rows_of(DAY, 2))
    yard.run(pipeline)
    yard.feed(f"{rows_of(DAY, 2)} union all {rows_of(AFTER, 3)} union all select 99, null, 1, null")
    with yard.untouched(), pytest.raises(OutOfScope, match=r"4 rows outside its scope.*d=2026-04-26; d=null"):
        yard.run(pipeline)


@pytest.mark.parametrize(
    "vectors",
    [pytest.param("true", id="deletion-vectors"), pytest.param("false", id="no-vectors", marks=pytest.mark.full)],
)
def test_s12_a_merge_rewrites_only_the_files_that_it_changes(yard, vectors):
    pipeline = yard.pipeline(key=["id"], write=Merge(version="u"))
    yard.feed(rows_of(DAY, 4))
    yard.run(pipeline)
    yard.sql(f"alter table {{t}} set tblproperties ('delta.enableDeletionVectors' = '{vectors}')")
    yard.feed(rows_of(DAY, 4, first=100))
    yard.run(pipeline, AFTER)
    # Somebody deletes a row by hand: with deletion vectors the file stays and a vector hides the row.
    yard.sql("delete from {t} where id = 3")
    kept = yard.files("id >= 100")
    # One row is newer, one is new, one is the same; the deleted one is not in this delivery.
    yard.feed(
        f"{rows_of(DAY, 1)} union all select 1, date'{DAY}', 77, timestamp'2027-01-01' "
        f"union all select 9, date'{DAY}', 9, timestamp'2026-05-01'"
    )
    assert yard.run(pipeline) == "published"
    assert {row[0]: row[2] for row in yard.rows()} == {0: 0, 1: 77, 2: 2, 9: 9, 100: 0, 101: 1, 102: 2, 103: 3}
    assert yard.files("id >= 100") == kept
    with yard.untouched():
        assert yard.run(pipeline) == "unchanged"
    # An older version does not come back.
    yard.feed(f"select 1L as id, date'{DAY}' as d, 5 as n, timestamp'2026-05-02' as u")
    with yard.untouched():
        assert yard.run(pipeline, BEFORE) == "unchanged"


@pytest.mark.full
def test_s15_an_insert_only_key_is_written_once(yard):
    pipeline = yard.pipeline(partition=Day("d"), key=["id"], write=InsertOnly())
    yard.feed(rows_of(DAY, 3))
    assert yard.run(pipeline) == "published"
    files = yard.files()
    yard.feed(rows_of(DAY, 5))
    assert yard.run(pipeline) == "published"
    assert files < yard.files()
    assert len(yard.rows()) == 5
    yard.feed(rows_of(DAY, 5, 1))
    with yard.untouched(), pytest.raises(MergeRefused, match="in the table with other content"):
        yard.run(pipeline)


@pytest.mark.full
def test_s44_what_people_do_by_hand_is_noticed_and_repaired(yard):
    pipeline = yard.pipeline()
    yard.feed(rows_of(DAY, 4))
    yard.run(pipeline)
    older = len(yard.log()) - 1
    yard.feed(rows_of(DAY, 6, 1))
    yard.run(pipeline)
    right = yard.rows()
    for statement in ("delete from {t} where id = 2", f"restore table {{t}} to version as of {older}"):
        yard.sql(statement)
        assert yard.rows() != right
        assert yard.run(pipeline, skip_fresh=True) == "published", statement
        assert yard.rows() == right


def test_s46_optimize_is_no_conflict_and_somebody_elses_rows_are(yard):
    pipeline = yard.pipeline()
    yard.feed(f"select /*+ repartition(2) */ * from ({rows_of(DAY, 8)})")
    yard.run(pipeline)
    done = []

    def meanwhile(event):
        if event.state == "staged" and len(done) == 0:
            yard.sql("optimize {t}")
            done.append(len(yard.log()))

    yard.feed(rows_of(DAY, 5, 1))
    before = len(yard.log())
    assert yard.run(pipeline, listener=meanwhile) == "published"
    assert done == [before + 1]
    assert len(yard.rows()) == 5

    def interfering(event):
        if event.state == "staged" and len(done) == 1:
            done.append(yard.sql(f"insert into {{t}} values (99, date'{DAY}', 1, null)"))

    yard.feed(rows_of(DAY, 3, 2))
    with pytest.raises(Conflict, match="by another writer between claim and publish"):
        yard.run(pipeline, listener=interfering)
    assert len(yard.rows()) == 6
    # Rows of another day are nobody's conflict.
    done.pop()

    def elsewhere(event):
        if event.state == "staged" and len(done) == 1:
            done.append(yard.sql(f"insert into {{t}} values (98, date'{AFTER}', 1, null)"))

    assert yard.run(pipeline, listener=elsewhere) == "published"
    assert len(yard.rows(f"d = '{DAY}'")) == 3
    assert len(yard.rows()) == 4
    # Compacted by hand after a publish: the rerun changes nothing.
    yard.sql("optimize {t}")
    with yard.untouched():
        assert yard.run(pipeline) == "unchanged"


@pytest.mark.full
def test_s51_a_new_column_comes_with_its_first_rows_and_others_are_refused(yard):
    pipeline = yard.pipeline()
    yard.feed(rows_of(BEFORE, 2))
    yard.run(pipeline, BEFORE)
    # A refused attempt does not leave its column behind.
    wider = f"select *, id * 2 as more from ({rows_of(DAY, 2, first=10)})"
    yard.feed(f"{wider} union all select 1, null, 1, null, 1")
    with yard.untouched(), pytest.raises(OutOfScope):
        yard.run(pipeline)
    yard.feed(wider.replace("more", "`m (ore)`"))
    with yard.untouched(), pytest.raises(SchemaRefused, match=r"'m \(ore\)'") as mapped:
        yard.run(pipeline)
    assert "'delta.columnMapping.mode'='name'" in mapped.value.to_go_on
    yard.feed(wider)
    assert yard.run(pipeline) == "published"
    assert {row["id"]: row["more"] for row in yard.sql("select id, more from {t}")} == {
        0: None,
        1: None,
        10: 20,
        11: 22,
    }
    yard.feed(rows_of(DAY, 2))
    with yard.untouched(), pytest.raises(SchemaRefused, match="more, which the step no longer makes") as dropped:
        yard.run(pipeline)
    assert "DROP COLUMN `more`" in dropped.value.to_go_on
    yard.feed(f"select id, d, cast(n as string) n, u, 1L as more from ({rows_of(DAY, 2)})")
    with yard.untouched(), pytest.raises(SchemaRefused, match="column n is int, but the step makes string"):
        yard.run(pipeline)


@pytest.mark.full
def test_names_may_hold_quotes_spaces_and_unicode(yard):
    odd = quote("o'rder`s @v1 é 表")
    table, column, day = odd, "na`me, of (it)", "d`ay é"
    pipeline = yard.pipeline(table, partition=Day(day), dimensions=["ten'ant"], key=[column], write=Overwrite())
    value = "it's `a\\b\"%20/=é"
    yard.feed(
        f"select id as {quote(column)}, date'{DAY}' as {quote(day)}, {json.dumps(value)} as `ten'ant` from range(3)"
    )
    assert yard.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert len(yard.rows(table=table)) == 3
    with yard.untouched(table):
        assert yard.run(pipeline, dimensions={"ten'ant": value}) == "unchanged"
    # A new column of such a table gets a name of its own in the files, too.
    yard.feed(yard._query.replace("select id", "select 1 as `x y`, id"))
    assert yard.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert [row[0] for row in yard.sql("select `x y` from {t}", table)] == [1, 1, 1]
    yard.feed(yard._query.replace("range(3)", "range(0)"))
    assert yard.run(pipeline, dimensions={"ten'ant": value}) == "published"
    assert yard.rows(table=table) == []


def test_a_run_is_undone_and_leftovers_are_maintained(yard):
    pipeline = yard.pipeline()
    yard.feed(rows_of(DAY, 3))
    yard.run(pipeline)
    right = yard.rows()
    yard.feed(rows_of(DAY, 5, 1))
    wrong = yard.lab.run(pipeline, DAY)
    with workshop(yard.lab.config, spark=yard.spark, ledger=yard.lab.ledger) as shop:
        assert [done.status for done in undo(shop, {"yard": pipeline}, wrong.run)] == ["went back"]
        assert yard.rows() == right
        done = maintain(shop, [pipeline], keep=yard.lab.config.lease)
    assert done[0].branches_dropped == 0
    assert yard.rows() == right
    assert yard.left_over() == []


def test_a_live_table_that_is_not_its_contract_is_refused(yard):
    pipeline = yard.pipeline()
    yard.sql(f"create table {{t}} ({COLUMNS}) using delta partitioned by (n)")
    yard.feed(rows_of(DAY, 2))
    with yard.untouched(), pytest.raises(StoreRefused, match="is partitioned by n, but its contract says d"):
        yard.run(pipeline)
    yard.sql(
        f"create table {{t}} ({COLUMNS}) using delta partitioned by (d) tblproperties ('delta.appendOnly' = 'true')",
        "log",
    )
    with pytest.raises(StoreRefused, match="append-only"):
        yard.run(yard.pipeline("log"))
    assert yard.run(yard.pipeline("log", partition=Day("d"), key=["id"], write=InsertOnly())) == "published"
