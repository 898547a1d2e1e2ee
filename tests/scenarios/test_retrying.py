"""S24, S25: transient errors are retried, everything else is reported at once; and fresh days cost nothing."""

from __future__ import annotations

import urllib.error
from email.message import Message
from types import SimpleNamespace

import pytest
import stamina
from pyspark.sql import functions as F

from twice import Day, Overwrite, Pipeline, Retry, Table
from twice.errors import PermanentError, RetriesExhausted, StepFailed, TransientError

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, d DATE"


class HttpError(Exception):
    """An error as HTTP libraries raise it: the response hangs on it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


class DatabaseError(Exception):
    """An error as database drivers raise it."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("the database said no")
        self.sqlstate = sqlstate


def url_error(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://api", status, "unavailable", Message(), None)


TRANSIENT = {
    "connection refused": lambda: ConnectionRefusedError("no answer"),
    "timeout": lambda: TimeoutError("no answer in 30 s"),
    "HTTP 429": lambda: HttpError(429, {"Retry-After": "7"}),
    "HTTP 503 of urllib": lambda: url_error(503),
    "URL error of urllib": lambda: urllib.error.URLError("name resolution failed"),
    "deadlock": lambda: DatabaseError("40P01"),
    "database shuts down": lambda: DatabaseError("57P01"),
}
PERMANENT = {
    "HTTP 404": lambda: HttpError(404),
    "HTTP 401 of urllib": lambda: url_error(401),
    "unique violation": lambda: DatabaseError("23505"),
    "their own mistake": lambda: KeyError("amount"),
}


def failing(lab, errors, **how):
    """Make an extract that raises the given errors, one per try, and then gives two rows."""
    pipeline, made = Pipeline("failing", grain=Day), SimpleNamespace(tries=0, errors=list(errors))
    target = Table(lab.name("raw"), partition=Day("d"), key=["id"], write=Overwrite(), schema=SCHEMA)

    @pipeline.extract(writes=target, **how)
    def fetch(window):
        made.tries += 1
        if made.errors:
            raise made.errors.pop(0)
        return [{"id": number, "d": window.start.date()} for number in range(2)]

    return pipeline, made


def test_s24_all_kinds_of_transient_errors_are_retried_recorded_and_then_done(lab):
    pipeline, made = failing(lab, [make() for make in TRANSIENT.values()], retry=Retry(attempts=len(TRANSIENT) + 1))
    told = []

    step = lab.run(pipeline, "2026-04-25", listener=told.append).steps[0]

    assert (step.status, step.rows, step.attempts) == ("published", 2, len(TRANSIENT) + 1)
    assert made.tries == len(TRANSIENT) + 1
    attempts = lab.ledger.runs.list()[0].attempts
    assert [attempt.number for attempt in attempts] == list(range(1, len(TRANSIENT) + 2))
    assert [attempt.status for attempt in attempts] == ["failed"] * len(TRANSIENT) + ["published"]
    assert all(attempt.transient for attempt in attempts[:-1])
    assert "no answer in 30 s" in attempts[1].error
    assert [event.state for event in told].count("retrying") == len(TRANSIENT)
    assert [row["id"] for row in lab.rows("raw")] == [0, 1]
    assert len(lab.versions("raw")) == 1
    assert lab.refs("raw") == ["main"]
    assert lab.ledger.leases.list() == []


def test_s24_waits_grow_and_what_a_server_asks_for_is_honoured(lab, monkeypatch):
    stamina.set_testing(False)
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waits.append))
    errors = [ConnectionError(), ConnectionError(), ConnectionError(), HttpError(429, {"Retry-After": "71"})]
    pipeline, _ = failing(lab, errors, retry=Retry(attempts=5, wait_initial=2, wait_max=60))

    lab.run(pipeline, "2026-04-25")

    assert 2 <= waits[0] <= 4
    assert 4 <= waits[1] <= 6
    assert 8 <= waits[2] <= 10
    assert waits[3] == 71


def test_s24_a_transient_error_that_does_not_end_is_exit_75(lab):
    pipeline, made = failing(lab, [ConnectionResetError("gone") for _ in range(9)])

    with lab.untouched("raw"), pytest.raises(RetriesExhausted) as stopped:
        lab.run(pipeline, "2026-04-25")

    assert stopped.value.exit_code == 75
    assert "failed 4 times, last: step fetch raised ConnectionResetError: gone" in stopped.value.message
    assert made.tries == 4
    run = lab.ledger.runs.list()[0]
    assert (run.status, len(run.attempts)) == ("failed", 4)
    pipeline, made = failing(lab, [ConnectionResetError("gone")], retry=Retry(attempts=1))
    with pytest.raises(TransientError) as stopped:
        lab.run(pipeline, "2026-04-25")
    assert (stopped.value.exit_code, made.tries) == (75, 1)


@pytest.mark.parametrize("kind", PERMANENT)
def test_s25_what_is_not_transient_is_not_retried(lab, kind):
    pipeline, made = failing(lab, [PERMANENT[kind]()])

    with lab.untouched("raw"), pytest.raises(StepFailed) as stopped:
        lab.run(pipeline, "2026-04-25")

    assert (made.tries, stopped.value.exit_code) == (1, 3)
    assert "step fetch raised" in stopped.value.message
    assert stopped.value.next_step


def test_s25_an_error_of_their_own_can_be_declared_transient(lab):
    class QuotaExceeded(Exception):
        pass

    pipeline, made = failing(lab, [QuotaExceeded()], transient=(QuotaExceeded,))

    assert lab.run(pipeline, "2026-04-25").steps[0].attempts == 2
    assert made.tries == 2


def test_s25_a_missing_column_is_exit_3_with_a_sentence(lab):
    raw = lab.source("raw", "id bigint, d date", "values (1, date'2026-04-25')")
    for kind in ("python", "sql"):
        pipeline = Pipeline("missing", grain=Day)
        target = Table(lab.name("out"), partition=Day("d"), write=Overwrite())
        if kind == "sql":
            pipeline.sql("sums", reads={"raw": raw}, writes=target, query="select d, amount from raw")
        else:

            @pipeline.step(reads={"raw": raw}, writes=target)
            def sums(raw):
                return raw.select("d", F.col("amount"))

        with lab.untouched("out"), pytest.raises(PermanentError) as stopped:
            lab.run(pipeline, "2026-04-25")

        assert stopped.value.exit_code == 3
        assert "step sums" in stopped.value.message
        assert "amount" in stopped.value.message
        assert "nothing was staged" in stopped.value.unchanged
        assert "correct the step" in stopped.value.next_step
        run = lab.ledger.runs.list()[0]
        assert (run.status, len(run.attempts), run.attempts[0].transient) == ("failed", 1, False)
        assert "amount" in run.error


def test_s25_an_error_inside_a_spark_task_names_the_step_and_is_not_retried(lab):
    raw = lab.source("raw", "id bigint, d date", "values (0, date'2026-04-25')")
    pipeline = Pipeline("dividing", grain=Day)
    target = Table(lab.name("out"), partition=Day("d"), write=Overwrite())
    pipeline.sql("ratio", reads={"raw": raw}, writes=target, query="select *, 1 / id as x from raw")

    with pytest.raises(StepFailed) as stopped:
        lab.run(pipeline, "2026-04-25")

    assert "step ratio" in stopped.value.message
    assert "DIVIDE_BY_ZERO" in stopped.value.message
    assert len(lab.ledger.runs.list()[0].attempts) == 1
    assert not lab.exists("out")


def test_a_fresh_day_starts_no_spark_job(lab):
    raw = lab.source("raw", "id bigint, d date", "select id, date'2026-04-25' from range(9)")
    pipeline = Pipeline("fresh", grain=Day)
    one = Table(lab.name("one"), partition=Day("d"), key=["id"], write=Overwrite())
    two = Table(lab.name("two"), partition=Day("d"), key=["id"], write=Overwrite())
    pipeline.sql("one", reads={"raw": raw}, writes=one, query="select * from raw")
    pipeline.sql("two", reads={"one": one}, writes=two, query="select * from one")
    lab.run(pipeline, "2026-04-25")

    jobs = lab.jobs()
    steps = lab.run(pipeline, "2026-04-25", skip_fresh=True).steps

    assert [(step.status, step.rows) for step in steps] == [("fresh", 9), ("fresh", 9)]
    assert lab.jobs() == jobs
    lab.run(pipeline, "2026-04-25")
    assert lab.jobs() > jobs  # the counter counts
