from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.support.counting import fetched
from twice.errors import UsageError
from twice.ledger import InputRecord
from twice.ledger.db.schema import outputs as outputs_table
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


@pytest.fixture
def publish(ledger, work):
    def publish(*new, table=T, **options):
        run, attempt, claim = work(table, new)
        ledger.outputs.record(claim, attempt, new, **options)
        return run

    return publish


def test_what_was_recorded_is_read_back(ledger, clock, day, made, publish):
    new = made(T, day(1, tenant="o'brien"), rows=3)
    run = publish(new, details={"seconds": 2})
    found = ledger.outputs.find(T, day(1, tenant="o'brien"))
    assert (found.run, found.token, found.recorded_at) == (run, 1, clock.now())
    assert (found.rows, found.digest, found.files, found.version) == (3, "digest-3", "files-1", "100")
    assert (found.pipeline, found.step, found.code, found.inputs) == ("shop", "revenue", "code-1", new.inputs)
    assert found.to_json()["inputs"][0]["partitions"] == {"2026-01-01": "abc"}
    assert ledger.outputs.find(T, day(1)) is None
    assert ledger.leases.list() == []
    attempt = ledger.runs.get(run).attempts[0]
    assert (attempt.status, attempt.rows, attempt.version) == ("published", 3, "100")
    assert attempt.details == {"seconds": 2}


def test_prepared_is_not_yet_published(ledger, day, made, work):
    _, attempt, claim = work(T, [made(T, day(1))])
    assert ledger.outputs.list(T) == []
    ledger.outputs.prepare(claim, attempt, [made(T, day(1)), made(T, day(2))])
    ledger.leases.release(claim)
    with ledger.database.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(outputs_table)) == 0


def test_an_accepted_gate_survives_a_crash_between_publish_and_record(ledger, clock, day, made, work):
    known = [{"gate": "row count at least 5", "because": "see postgresql://u:s3cret@h/d"}]
    run, attempt, claim = work(T, [made(T, day(1))])
    ledger.outputs.prepare(claim, attempt, [made(T, day(1))], details={"accepted_gates": known})
    clock.advance(timedelta(hours=1))
    after = ledger.leases.claim(T, [day(1)], ttl=MINUTE, run=run)
    ledger.leases.settle(after.abandoned[0], landed=True, version="7")
    (info,) = ledger.runs.get(run).attempts
    assert info.status == "published"
    assert info.details["adopted"] is True
    assert info.accepted_gates[0]["gate"] == "row count at least 5"
    assert "s3cret" not in str(info.details)
    assert list(ledger.attempts.accepted_gates("shop", "revenue")) == [run]


def test_a_new_output_supersedes_what_it_covers_and_nothing_else(ledger, day, made, publish):
    publish(made(T, day(1, tenant="a"), rows=1), made(T, day(1, tenant="b"), rows=2), made(T, day(2), rows=3))
    publish(made(T, day(1, tenant="a"), rows=10))
    assert [output.rows for output in ledger.outputs.list(T)] == [10, 2, 3]
    publish(made(T, day(1), rows=100))  # all tenants at once
    assert [output.rows for output in ledger.outputs.list(T)] == [100, 3]
    publish(made(T, day(1, tenant="a"), rows=7))  # a part does not replace the whole
    assert sorted(output.rows for output in ledger.outputs.list(T)) == [3, 7, 100]
    publish(made(T, day(1, days=31), rows=31))  # the table is partitioned by month now
    assert [output.rows for output in ledger.outputs.list(T)] == [31]
    publish(made(T, Scope(None), rows=5))
    publish(made(T, Scope(None), rows=6))
    assert [output.rows for output in ledger.outputs.list(T)] == [6, 31]


def test_history_stays_until_pruned(ledger, clock, day, made, publish):
    for rows in (1, 2, 3):
        publish(made(T, day(1), rows=rows))
    with ledger.database.read() as connection:
        query = sa.select(outputs_table.c.row_count, outputs_table.c.state).order_by(outputs_table.c.id)
        assert [tuple(row) for row in connection.execute(query)] == [
            (1, "superseded"),
            (2, "superseded"),
            (3, "current"),
        ]


def test_recording_again_after_a_lost_acknowledgement_is_harmless(ledger, day, made, work):
    _, attempt, claim = work(T, [made(T, day(1))])
    ledger.outputs.record(claim, attempt, [made(T, day(1))])
    ledger.outputs.record(claim, attempt, [made(T, day(1))])
    assert len(ledger.outputs.list(T)) == 1


def test_unchanged_and_empty_records(ledger, day, made, work):
    run, attempt, claim = work(T, [made(T, day(1))])
    ledger.outputs.record(claim, attempt, [], status="unchanged")
    assert ledger.runs.get(run).attempts[0].status == "unchanged"
    assert (ledger.outputs.list(T), ledger.leases.list()) == ([], [])


def test_outputs_of_a_window_in_order(ledger, day, made, publish):
    publish(*[made(T, day(number), rows=number) for number in (3, 1, 2, 5)])
    assert [output.rows for output in ledger.outputs.list(T)] == [1, 2, 3, 5]
    assert [output.rows for output in ledger.outputs.list(T, day(2, days=2).window)] == [2, 3]
    assert ledger.outputs.list("lake.other") == []


def test_row_history_nearest_first_same_dimensions(ledger, day, made, publish):
    publish(*[made(T, day(number), rows=number) for number in (1, 2, 3, 4, 5)])
    publish(*[made(T, day(number, tenant="a"), rows=number * 10) for number in (1, 2)])
    publish(made(T, day(2), rows=22))  # supersedes both of day 2
    assert ledger.outputs.row_counts(T, day(4), 2) == [3, 22]
    assert ledger.outputs.row_counts(T, day(4), 9) == [3, 22, 1]
    assert ledger.outputs.row_counts(T, day(4, tenant="a"), 9) == [10]
    assert ledger.outputs.row_counts(T, day(1), 9) == []


def test_row_history_of_a_whole_table_is_its_own(ledger, made, publish):
    for rows in (1, 2, 3):
        publish(made("lake.dim", Scope(None), rows=rows), table="lake.dim")
    assert ledger.outputs.row_counts("lake.dim", Scope(None), 2) == [3, 2]


def test_maintenance_changes_files_but_not_content(ledger, day, made, publish):
    publish(made(T, day(1), rows=1), made(T, day(2), rows=2))
    before = ledger.outputs.list(T)
    ledger.outputs.rerecord(T, {day(1): "compacted", day(9): "unknown"}, "200")
    a, b = ledger.outputs.list(T)
    assert (a.files, a.version, a.digest, a.recorded_at) == (
        "compacted",
        "200",
        "digest-1",
        before[0].recorded_at,
    )
    assert b == before[1]


def test_outputs_of_another_table_or_twice_the_same_scope_are_refused(ledger, day, made, work):
    _, attempt, claim = work(T, [made(T, day(1))])
    with pytest.raises(UsageError, match="no other table"):
        ledger.outputs.record(claim, attempt, [made("lake.other", day(1))])
    with pytest.raises(UsageError, match="one and the same scope"):
        ledger.outputs.prepare(claim, attempt, [made(T, day(1)), made(T, day(1))])
    with pytest.raises(UsageError, match="splendid"):
        ledger.outputs.record(claim, attempt, [], status="splendid")
    assert ledger.leases.holds(claim)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_long_lists_of_outputs_take_two_indexed_statements(ledger, day, made, work):
    many = 5_000  # statements and plans are the same for any number
    inputs = tuple(InputRecord(f"i{n}", "lake.raw", "window", "7", {"2026-01-01": "abc"}) for n in range(3))
    new = [made(T, day(number), rows=number, inputs=inputs) for number in range(1, many + 1)]
    _, attempt, claim = work(T, new, prepare=False)
    ledger.outputs.record(claim, attempt, new)
    seen = []
    sa.event.listen(
        ledger.database.engine,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, parameters, _context, _many: seen.append((statement, parameters)),
    )
    assert len(ledger.outputs.list(T)) == many
    assert [o.rows for o in ledger.outputs.list(T, day(500, days=2).window)] == [500, 501]
    assert ledger.outputs.find(T, day(77)).rows == 77
    assert ledger.outputs.row_counts(T, day(1000), 3) == [999, 998, 997]
    queries = [(statement, parameters) for statement, parameters in seen if statement.startswith("SELECT")]
    assert len(queries) == 7
    with ledger.database.read() as connection:
        for statement, parameters in queries:
            plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters).all()
            assert not [row for row in plan if row[3].startswith("SCAN outputs")], plan
            assert "USING INDEX outputs" in str(plan) or "COVERING INDEX outputs" in str(plan)


def test_a_scope_reads_its_own_partitions_whatever_the_history(ledger, day, made, publish):
    publish(*(made(T, day(number), rows=number) for number in range(1, 31)))
    publish(made(T, day(30, tenant="a"), rows=300), made(T, Scope(None), rows=7))
    with fetched(ledger.database.engine) as counted:
        assert [output.rows for output in ledger.outputs.held(T, day(29, days=2))] == [29, 30]
        assert [output.rows for output in ledger.outputs.held(T, day(29, days=2, tenant="a"))] == [300]
        assert [output.rows for output in ledger.outputs.held(T, Scope(None))] == [7]
    assert counted.of("outputs.digest") == 4


def test_where_the_past_ends_is_found_without_reading_the_past(ledger, day, made, publish):
    publish(*(made(T, day(number)) for number in range(1, 31)))
    with fetched(ledger.database.engine) as counted:
        assert ledger.outputs.built_until(T, day(31)) == day(31).window.start
        assert ledger.outputs.built_until(T, day(40)) == day(31).window.start
        assert ledger.outputs.built_until(T, day(1)) is None
    assert counted.of("outputs") == 2


def test_where_the_past_ends_is_asked_of_overlapping_dimensions(ledger, day, made, publish):
    publish(made(T, day(1, tenant="a")), made(T, day(3, tenant="b")))
    assert ledger.outputs.built_until(T, day(5, tenant="a")) == day(2).window.start
    assert ledger.outputs.built_until(T, day(5, tenant="c")) is None
    assert ledger.outputs.built_until(T, day(5)) == day(4).window.start
    publish(made(T, day(4)))
    assert ledger.outputs.built_until(T, day(5, tenant="c")) == day(5).window.start
