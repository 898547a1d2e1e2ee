"""`twice stream`: what it says without Spark; with it, in tests/streams."""

from __future__ import annotations

import pytest

from twice.ledger import open_ledger
from twice.model.scopes import Scope

MORE = """
from twice import InsertOnly
from twice.streams import Write

@shop.stream(reads=Table("lake.raw.clicks"), writes=Table("lake.core.clicks", key=["event_id"], write=InsertOnly()),
             dedup=Write("event_id"))
def clicks(rows):
    return rows
"""


@pytest.fixture
def shop(project):
    """A shop with a stream that has run three batches, of which the last is not published."""
    project.code((project.folder / f"{project.module}.py").read_text() + MORE)
    project.ledger.parent.mkdir(exist_ok=True)
    ledger = open_ledger(f"sqlite:///{project.ledger}")
    run = ledger.runs.start("shop", Scope(None))
    ledger.streams.start(
        {
            "pipeline": "shop",
            "stream": "clicks",
            "table_name": "lake.core.clicks",
            "source": "table lake.raw.clicks",
            "source_table": "lake.raw.clicks",
            "query": "q1",
            "checkpoint": "/checkpoints",
            "run": run,
        }
    )
    info = ledger.streams.find("shop", "clicks")
    for number in range(3):
        batch = ledger.streams.batches.start(info, number, "offsets")
        ledger.streams.batches.note(batch, {"rows_in": 10, "rows_out": 7, "duplicates": 3, "late": 0}, ended=number < 2)
    project.run = run
    return project


def test_status_shows_the_latest_batches(shop):
    (one,) = shop.call("stream", "status", "--json").json
    assert (one["stream"], one["status"], one["table"]) == ("clicks", "running", "lake.core.clicks")
    assert [(batch["batch"], batch["rows_in"], batch["rows_out"]) for batch in one["batches"]] == [
        (2, 10, 7), (1, 10, 7), (0, 10, 7),
    ]  # fmt: skip
    assert "offsets" not in one["batches"][0]
    text = shop.call("stream", "status", "shop").out
    assert "shop.clicks" in text
    assert "20" in text
    assert "14" in text
    assert "lag unknown: it is not recorded" in text


def test_status_without_any_stream(project):
    assert project.call("stream", "status").out == "no stream has run yet\n"
    assert project.call("stream", "status", "--json").json == []


def test_stop_asks_a_running_stream_and_says_if_there_is_none(shop):
    found = shop.call("stream", "stop", "shop", "clicks")
    assert (found.code, found.out) == (0, "shop.clicks asked to stop after its batch\n")
    ledger = open_ledger(f"sqlite:///{shop.ledger}")
    assert ledger.streams.find("shop", "clicks").stop
    assert shop.call("stream", "stop", "shop", "--wait", "0.1").code == 1
    ledger.runs.finish(shop.run, "done", "")
    assert shop.call("stream", "stop", "shop", "--json").json == {"stream": "shop.clicks", "status": "stopped"}


def test_replay_lists_what_it_would_read(shop):
    found = shop.call("stream", "replay", "shop", "--from", "0", "--to", "9", "--dry-run", "--json").json
    assert [batch["batch"] for batch in found] == [0, 1]
    text = shop.call("stream", "replay", "shop", "--from", "2000-01-01", "--to", "2100-01-01T00:00", "--dry-run").out
    assert text.count("\n") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "shop", "other"], "no stream 'other'; its streams are: clicks"),
        (["replay", "shop", "--from", "0", "--to", "2026-04-01"], "give two batch numbers, or two times"),
        (["replay", "shop", "--from", "yesterday", "--to", "today"], "neither a batch number nor a time"),
        (["replay", "shop", "--from", "7", "--to", "9"], "no batch of the stream shop.clicks from 7 to 9"),
        (["replay", "shop", "--from", "7"], "Missing option '--to'"),
    ],
)
def test_what_cannot_be_meant_is_refused(shop, words, said):
    found = shop.call("stream", *words)
    assert found.code == 2
    assert said in found.err
