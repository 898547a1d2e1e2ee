"""S58: a recorded run is rebuilt from its pinned inputs and code: same, differs with the rows, or cannot and why."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from twice import Day, Merge, Overwrite, Pipeline, Table, Whole
from twice.engine.operations.undo import undo
from twice.engine.spark.environment import environment, put_back, settings
from twice.engine.spark.session import fresh
from twice.errors import StepFailed, UsageError
from twice.replay.recorded import plan_replay
from twice.replay.running import replay

pytestmark = pytest.mark.spark

MON, TUE = "2026-04-20", "2026-04-21"
COLUMNS = "id bigint, d date, n int, u timestamp"
ROWS = (
    "values (1, date'2026-04-20', 1, timestamp'2026-04-20'), (2, date'2026-04-20', 2, timestamp'2026-04-20'), "
    "(1, date'2026-04-21', 3, timestamp'2026-04-21'), (3, date'2026-04-21', 4, timestamp'2026-04-21')"
)


def replayed(lab, pipeline, run, *steps, rows=5):
    """Replay a run; nothing that is recorded may move by it."""
    before = [each.to_json() for each in lab.ledger.runs.list()]
    report = replay(lab.runtime, plan_replay(lab.ledger, [pipeline], run, steps=steps), rows=rows)
    assert [each.to_json() for each in lab.ledger.runs.list()] == before
    assert lab.ledger.leases.list() == []
    return report


def verdicts(report):
    return {step.step: step.status for step in report.steps}


def only(report):
    (step,) = report.steps
    return step


def copying(lab, raw, factor=None, **contract):
    """Make a pipeline of one step that copies a day; `factor` is what no fingerprint sees."""
    pipeline = Pipeline("copy", grain=Day)
    contract = {"partition": Day("d"), "key": ["id"], "write": Overwrite(), **contract}
    times = factor or SimpleNamespace(now=1)

    @pipeline.step(reads={"raw": raw}, writes=Table(lab.name("copied"), **contract))
    def copied(raw):
        return raw.withColumn("n", F.col("n") * times.now)

    return pipeline


def expire(lab, table):
    lab.sql(
        f"call lake.system.expire_snapshots(table => '{lab.space}.{table}', older_than => timestamp'2100-01-01', "
        "retain_last => 1)"
    )


def test_s58_a_run_is_rebuilt_as_it_was_after_its_tables_have_moved_on(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = Pipeline("all", grain=Day)
    fct = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite())
    top = Table(lab.name("top"), key=["it's"], write=Whole())
    dim = Table(lab.name("dim"), key=["id"], write=Merge(version="u"))
    pipeline.sql("fct", reads={"raw": raw}, writes=fct, query="select * from raw")
    pipeline.sql("top", reads={"fct": fct}, writes=top, query="select 'o''x' `it's`, sum(n) `a \"n\"` from fct")
    pipeline.sql("dim", reads={"raw": raw}, writes=dim, query="select id, n, u from raw")
    lab.run(pipeline, MON, steps=["dim"])
    run = lab.run(pipeline, TUE).run
    lab.sql("update {space}.raw set n = n * 10, u = u + interval 9 days")
    lab.run(pipeline, TUE, steps=["fct", "dim"])
    with lab.untouched("fct", "top", "dim"):
        report = replayed(lab, pipeline, run)
    assert verdicts(report) == dict.fromkeys(("fct", "top", "dim"), "same"), report.to_json()
    assert report.is_same
    assert report.remarks == []
    counts = {step.step: (step.recorded_rows, step.rebuilt_rows) for step in report.steps}
    assert counts == {"fct": (2, 2), "top": (1, 1), "dim": (3, 3)}
    assert report.steps[0].why == "rebuilt: the same 2 rows"
    # The run says what it was made with.
    made_with = lab.ledger.runs.get(run).environment
    assert made_with == environment(lab.runtime, pipeline)
    assert made_with["settings"]["spark.sql.session.timeZone"] == "UTC"
    assert made_with["versions"]["spark"] == lab.spark.version
    assert any("iceberg" in jar for jar in made_with["jars"])


def test_s58_what_differs_is_shown_with_its_rows_and_without_personal_values(lab):
    columns = "id bigint, d date, n int, mail string, age int"
    monday = "(1, date'2026-04-20', 1, 'a@x', 41), (2, date'2026-04-20', 2, 'b@x', 42)"
    rows = f"values {monday}, (3, date'2026-04-21', 3, 'c@x', 43)"
    raw = lab.source("raw", columns, rows, personal=["mail", "age"])
    times = SimpleNamespace(now=1)
    pipeline = copying(lab, raw, times, personal=["mail", "age"])
    run = lab.run(pipeline, from_=MON, to="2026-04-22").run
    times.now = 0
    lab.sql("update {space}.raw set mail = 'z@x', age = 99")
    lab.run(pipeline, from_=MON, to="2026-04-22")
    times.now = 5
    with lab.untouched("copied"):
        found = only(replayed(lab, pipeline, run, rows=2))
    assert found.status == "differs"
    assert found.why == "2026-04-20 and 1 more: the rebuilt rows are not those that the run published"
    assert {name: (each.changed, each.added) for name, each in found.partitions.items()} == {MON: (2, 0), TUE: (1, 0)}
    assert found.partitions[MON].sums == {"n": (3, 15)}
    assert found.samples == [
        "- id=1, d=2026-04-20, n=1, mail=(personal), age=(personal)",
        "+ id=1, d=2026-04-20, n=5, mail=(personal), age=(personal)",
        "- id=2, d=2026-04-20, n=2, mail=(personal), age=(personal)",
        "+ id=2, d=2026-04-20, n=10, mail=(personal), age=(personal)",
    ]
    assert "@x" not in str(found.to_json())
    assert "41" not in str(found.to_json())
    # The published rows have expired: their number and digest are still known.
    expire(lab, "copied")
    lost = only(replayed(lab, pipeline, run))
    assert (lost.status, lost.partitions, list(lost.samples)) == ("differs", {}, [])
    assert lost.remarks == ["the published rows are no longer kept, so only their number and digest could be compared"]
    times.now = 1
    assert only(replayed(lab, pipeline, run)).status == "same"


def test_s58_an_expired_input_cannot_be_read_unless_it_holds_the_same(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = copying(lab, raw)
    monday, tuesday = lab.run(pipeline, MON).run, lab.run(pipeline, TUE).run
    version = lab.ledger.runs.get(monday).attempts[0].inputs[0].version
    lab.sql("update {space}.raw set n = 7 where d = date'2026-04-20'")
    expire(lab, "raw")
    with lab.untouched("copied", "raw"):
        gone, kept = only(replayed(lab, pipeline, monday)), only(replayed(lab, pipeline, tuesday))
    assert (gone.status, kept.status) == ("cannot", "same")
    assert gone.why == (
        f"version {version} of its input raw ({raw.name}) has expired, "
        "and the rows that the run read have changed since"
    )
    assert "twice maintain --keep" in gone.next_step
    lab.sql("drop table {space}.raw")
    assert only(replayed(lab, pipeline, tuesday)).why == f"its input raw ({raw.name}) no longer exists"


@pytest.mark.full
def test_s58_a_merge_into_an_expired_version_cannot_be_rebuilt(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    pipeline = copying(lab, raw, partition=None, write=Merge(version="u"))
    monday, tuesday = lab.run(pipeline, MON).run, lab.run(pipeline, TUE).run
    base = lab.ledger.runs.get(tuesday).attempts[0].base_version
    expire(lab, "copied")
    assert only(replayed(lab, pipeline, monday)).status == "same"
    assert only(replayed(lab, pipeline, tuesday)).why == (
        f"its rows were merged into version {base} of {lab.name('copied')}, which is gone"
    )


def test_s58_other_code_is_named_with_the_commit_to_check_out(lab):
    raw = lab.source("raw", COLUMNS, ROWS)
    table = Table(lab.name("t"), partition=Day("d"), key=["id"], write=Overwrite())
    old, new, empty = (Pipeline("p", grain=Day) for _ in range(3))
    moved = Pipeline("p", grain=Day, time_zone="Asia/Tokyo")
    old.sql("t", reads={"raw": raw}, writes=table, query="select * from raw")
    new.sql("t", reads={"raw": raw}, writes=table, query="select * from raw where n > 1")
    moved.sql("t", reads={"raw": raw}, writes=table, query="select * from raw")
    run = lab.run(old, MON).run
    commit = lab.ledger.runs.get(run).environment.get("commit")
    found = only(plan_replay(lab.ledger, [new], run))
    assert (found.status, found.why) == ("cannot", "the code has changed since: its query")
    assert commit is None or f"git checkout {commit}" in found.next_step
    assert found.next_step
    assert only(plan_replay(lab.ledger, [moved], run)).why == (
        "the time zone of p was UTC and is Asia/Tokyo now, so its windows differ"
    )
    assert only(plan_replay(lab.ledger, [empty], run)).why == "the pipeline p no longer has the step t"
    gone = only(plan_replay(lab.ledger, [], run))
    assert (gone.status, gone.why) == ("cannot", "the pipeline p is not configured here")
    with pytest.raises(UsageError, match=r"has no step 'tt'; its steps are: t. Did you mean t\?"):
        plan_replay(lab.ledger, [old], run, steps=["tt"])
    with pytest.raises(UsageError, match="no run begins with 'zzz'"):
        plan_replay(lab.ledger, [old], "zzz")


def test_s58_a_source_without_versions_is_rebuilt_while_its_files_are_the_same(lab):
    lab.declare(f'[stores.drop]\ntype = "files"\npath = "{lab.folder}/drop"\nformat = "csv"\noption.header = true')
    folder = lab.folder / "drop" / "in" / "raw" / "d=2026-04-20"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id,n\n1,1\n")
    raw = Table("drop.in.raw", partition=Day("d"), schema="id BIGINT, n INT, d DATE")
    pipeline = copying(lab, raw)
    run = lab.run(pipeline, MON).run
    other = folder.with_name("d=2026-04-21")
    other.mkdir()
    (other / "b.csv").write_text("id,n\n2,2\n")
    assert only(replayed(lab, pipeline, run)).status == "same"
    (folder / "a.csv").write_text("id,n\n1,100\n")
    with lab.untouched("copied"):
        found = only(replayed(lab, pipeline, run))
    assert (found.status, found.why) == (
        "cannot",
        "its input raw (drop.in.raw) has no versions, and what the run has read of it has changed since",
    )


def test_s58_what_computed_nothing_of_its_own_cannot_be_rebuilt(lab):
    pipeline = Pipeline("p", grain=Day)
    landed = Table(lab.name("landed"), partition=Day("d"), key=["id"], write=Overwrite(), schema="id INT, d DATE")
    fct = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite())
    after = Table(lab.name("after"), partition=Day("d"), key=["id"], write=Overwrite())

    @pipeline.extract(writes=landed)
    def land(window):
        yield {"id": 1, "d": window.start.date()}

    @pipeline.step(reads={"landed": landed}, writes=fct)
    def facts(landed, window):
        if window.start.day == 21:
            raise ValueError("not on the 21st")
        return landed

    pipeline.sql("after", reads={"fct": fct}, writes=after, query="select * from fct")
    good = lab.run(pipeline, MON).run
    with pytest.raises(StepFailed, match="not on the 21st"):
        lab.run(pipeline, TUE)
    failed = lab.ledger.runs.list(limit=1)[0].id
    fresh_run = lab.run(pipeline, MON, steps=["facts"], skip_fresh=True).run
    undo(lab.runtime, {"p": pipeline}, good, steps=["after"])
    undone = lab.ledger.runs.list(limit=1)[0].id

    assert verdicts(replayed(lab, pipeline, good)) == {"land": "cannot", "facts": "same", "after": "same"}
    extract, broken = plan_replay(lab.ledger, [pipeline], failed).steps
    assert extract.why == "it is an extract: what its source returned then has no versions"
    assert broken.why.startswith("nothing was published: step facts raised ValueError: not on the 21st")
    never = only(plan_replay(lab.ledger, [pipeline], failed, steps=["after"]))
    assert never.why == "the run ended before it: it is failed"
    skipped = only(plan_replay(lab.ledger, [pipeline], fresh_run))
    assert skipped.why == "the run found it up to date and computed nothing"
    assert skipped.next_step == f"twice replay {good}, which made it"
    assert only(plan_replay(lab.ledger, [pipeline], undone)).why == f"the run put back what run {good} had replaced"


def test_the_settings_of_a_run_are_put_back(lab):
    session = fresh(lab.spark, "Europe/Berlin")
    now = settings(session)
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    was = {**now, "spark.sql.ansi.enabled": "false", "spark.sql.legacy.charVarcharAsString": "true"}
    was["spark.sql.session.timeZone"] = "UTC"
    assert put_back(session, {"settings": was}) == []
    # The zone is the pipeline's, which is compared before.
    assert settings(session) == {**was, "spark.sql.session.timeZone": "Europe/Berlin"}
    assert session.sql("select cast('x' as int) n").collect()[0].n is None
    assert put_back(session, {}) == []


def test_what_a_run_is_made_with_is_found_without_a_spark_job(lab):
    before = lab.jobs()
    found = environment(lab.runtime, Pipeline("p", grain=Day))
    assert {"versions", "settings", "jars"} <= set(found)
    assert lab.jobs() == before
