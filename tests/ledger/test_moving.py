"""Export and import: a ledger moves between databases and gives the same answers."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twice.errors import LedgerError, UsageError
from twice.ledger import find_ledger, open_ledger
from twice.model.scopes import Scope

MINUTE = timedelta(minutes=1)
T = "lake.core.fct_orders"


@pytest.fixture
def lived(ledger, clock, day, made, work):
    """A ledger in which something of everything happened."""
    run, attempt, claim = work(T, [made(T, day(1, tenant="o'brien ☃"), rows=3), made(T, day(2), version=None)])
    ledger.outputs.record(claim, attempt, [made(T, day(1, tenant="o'brien ☃"), rows=3), made(T, day(2))])
    ledger.runs.finish(run, "failed", error="quote ' \" \\ ; \n ☃ \x00")
    run, attempt, claim = work(T, [made(T, day(2), rows=9)])
    ledger.outputs.record(claim, attempt, [made(T, day(2), rows=9)], details={"seconds": 1.5})
    ledger.runs.finish(run, "done")
    clock.advance(MINUTE)
    work("lake.dim", [made("lake.dim", Scope(None))])
    ledger.leases.release(ledger.leases.claim("lake.other", [day(1)], ttl=MINUTE, floor=2**40))
    return ledger


@pytest.fixture(params=["sqlite", "postgres"])
def elsewhere(request, schema_url, tmp_path, clock):
    """The URL of a ledger that is not there yet, in either database."""
    return schema_url() if request.param == "postgres" else f"sqlite:///{tmp_path}/there/ledger.db"


def answers(ledger, window):
    tables = (T, "lake.dim", "lake.other")
    return (
        [run.to_json() for run in ledger.runs.list()],
        [[output.to_json() for output in ledger.outputs.list(table)] for table in tables],
        [lease.to_json() for lease in ledger.leases.list()],
        [attempt.to_json() for attempt in ledger.attempts.list("shop")],
        ledger.attempts.newest("shop", "revenue", window),
        [ledger.outputs.row_counts(table, Scope(None), 9) for table in tables],
    )


def test_a_moved_ledger_gives_the_same_answers_and_goes_on(lived, elsewhere, clock, day, tmp_path):
    window = day(1, days=9).window
    file = tmp_path / "ledger.jsonl"
    steps = []
    report = lived.admin.export_to(file, lambda done, total: steps.append((done, total)))
    assert steps[-1] == (sum(report.rows.values()), sum(report.rows.values()))
    moved = open_ledger(elsewhere, clock=clock)
    assert moved.admin.import_from(file).rows == report.rows
    assert answers(moved, window) == answers(lived, window)
    # It goes on where the other one ended: no number and no token is given twice.
    for ledger in (lived, moved):
        run = ledger.runs.start("shop", day(5))
        assert ledger.attempts.start(run, "s", T, 1, day(5), code="c") == 4
        assert ledger.leases.claim(T, [day(5)], ttl=MINUTE, run=run).token == 3
        assert ledger.leases.claim("lake.other", [day(5)], ttl=MINUTE).token == 2**40 + 2


def test_there_and_back_again_is_the_same_file(lived, elsewhere, clock, new_url, tmp_path):
    lived.admin.export_to(tmp_path / "a")
    there = open_ledger(elsewhere, clock=clock)
    there.admin.import_from(tmp_path / "a")
    there.admin.export_to(tmp_path / "b")
    back = open_ledger(new_url(), clock=clock)
    back.admin.import_from(tmp_path / "b")
    back.admin.export_to(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_importing_twice_is_harmless_and_other_content_is_left_alone(lived, elsewhere, clock, day, tmp_path):
    lived.admin.export_to(tmp_path / "a")
    moved = open_ledger(elsewhere, clock=clock)
    assert moved.admin.import_from(tmp_path / "a").changed
    assert not moved.admin.import_from(tmp_path / "a").changed
    moved.runs.start("shop", day(1))
    before = moved.runs.list()
    with pytest.raises(UsageError, match="is not empty"):
        moved.admin.import_from(tmp_path / "a")
    assert moved.runs.list() == before
    # As many rows, but not the same.
    lived.runs.start("shop", day(1))
    lived.admin.export_to(tmp_path / "b")
    with pytest.raises(UsageError, match="is not empty"):
        moved.admin.import_from(tmp_path / "b")


def test_many_rows_stream(ledger, elsewhere, clock, day, made, work, tmp_path):
    many = [made(T, day(number), rows=number) for number in range(1, 2_501)]
    _, attempt, claim = work(T, many, prepare=False)
    ledger.outputs.record(claim, attempt, many)
    seen = []
    ledger.admin.export_to(tmp_path / "a", lambda done, total: seen.append(done))
    assert seen[:-1] == [1000, 2000]
    assert seen[-1] > 2_500
    moved = open_ledger(elsewhere, clock=clock)
    moved.admin.import_from(tmp_path / "a")
    assert moved.outputs.list(T) == ledger.outputs.list(T)


def test_an_export_sees_one_state_and_overwrites_nothing(lived, tmp_path):
    file = tmp_path / "a"
    lived.admin.export_to(file, lambda _done, _all: None)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        lived.admin.export_to(file)
    assert file.read_bytes() == before
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot be written"):
        lived.admin.export_to(tmp_path / "file" / "x")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


def test_an_interrupted_export_leaves_no_half_file(lived, tmp_path):
    def stop(_done, _all):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lived.admin.export_to(tmp_path / "a", stop, every=1)
    assert list(tmp_path.iterdir()) == []


def test_the_file_holds_no_password(ledger, tmp_path):
    run = ledger.runs.start("shop", Scope(None), command="x postgresql://ana:geheim@db/y")
    ledger.runs.finish(run, "failed", error="password=geheim")
    ledger.admin.export_to(tmp_path / "a")
    text = (tmp_path / "a").read_text()
    assert "geheim" not in text
    assert "p@ss" not in text
    assert "5ecret" not in text


@pytest.fixture
def lines(lived, tmp_path):
    lived.admin.export_to(tmp_path / "good")
    return (tmp_path / "good").read_text().splitlines(keepends=True)


def header(lines, **changes):
    return [json.dumps(json.loads(lines[0]) | changes) + "\n", *lines[1:]]


def row(lines, table, **changes):
    """Change the first row of a table."""
    at = next(at for at, line in enumerate(lines) if line.startswith(f'{{"{table}"'))
    changed = {table: json.loads(lines[at])[table] | changes}
    return [*lines[:at], json.dumps(changed) + "\n", *lines[at + 1 :]]


BROKEN = {
    "nothing": lambda _lines: [],
    "another file": lambda _lines: ["hello\n"],
    "a list": lambda _lines: ["[1]\n"],
    "another format": lambda lines: header(lines, twice_ledger=2),
    "another revision": lambda lines: header(lines, revision="0000"),
    "no counts": lambda lines: header(lines, rows=None),
    "cut between lines": lambda lines: lines[:-1],
    "cut within a line": lambda lines: [*lines[:-1], lines[-1][:20]],
    "a line twice": lambda lines: header([*lines, lines[-1]], rows=counted([*lines, lines[-1]])),
    "an unknown table": lambda lines: [*lines, '{"users": {}}\n'],
    "an unknown column": lambda lines: row(lines, "runs", users=1),
    "a missing value": lambda lines: row(lines, "runs", pipeline=None),
    "a text for a number": lambda lines: row(lines, "runs", pid="7"),
    "a truth for a number": lambda lines: row(lines, "runs", pid=True),
    "no instant": lambda lines: row(lines, "runs", started_at="yesterday"),
    "a row of no run": lambda lines: row(lines, "attempts", run="nobody"),
}


def counted(lines):
    names = [next(iter(json.loads(line))) for line in lines[1:]]
    return {name: names.count(name) for name in json.loads(lines[0])["rows"]}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("elsewhere", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)], indirect=True)
def test_a_broken_file_changes_nothing(lines, how, elsewhere, clock, tmp_path):
    (tmp_path / "bad").write_text("".join(BROKEN[how](lines)))
    target = open_ledger(elsewhere, clock=clock)
    with pytest.raises((UsageError, LedgerError)) as refused:
        target.admin.import_from(tmp_path / "bad")
    assert "nothing was" in str(refused.value)
    assert target.runs.list() == []
    assert target.admin.import_from(tmp_path / "good").changed


def test_a_file_that_cannot_be_read(ledger, tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        ledger.admin.import_from(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 50)
    with pytest.raises(UsageError, match="it is not text"):
        ledger.admin.import_from(tmp_path / "binary")


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(st.text(max_size=20), min_size=3, max_size=3))
@pytest.mark.parametrize("kind", ["sqlite"])
def test_any_text_survives_the_move(new_url, schema_url, tmp_path_factory, texts):
    source, target = open_ledger(new_url()), open_ledger(schema_url())
    command, name, value = texts
    scope = Scope.of(None, {f"d{name}": f"v{value}"})
    run = source.runs.start("shop", scope, command=command, tags={name: value})
    source.runs.finish(run, "failed", error=value)
    file = tmp_path_factory.mktemp("moved") / "ledger.jsonl"
    source.admin.export_to(file)
    target.admin.import_from(file)
    assert target.runs.get(run) == source.runs.get(run)


def test_nothing_is_made_by_a_failed_look(tmp_path):
    assert find_ledger(f"sqlite:///{tmp_path}/x/ledger.db") is None
    assert list(tmp_path.iterdir()) == []
