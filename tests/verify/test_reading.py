"""What the reads during a publish show: whole versions, first the old one and then the new one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twice.verify.reading import ReaderLoop

OLD, NEW, TORN = (SimpleNamespace(rows=rows) for rows in (1, 3, 2))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([OLD, OLD, NEW], ""),
        ([NEW], ""),
        ([], ""),
        ([OLD, TORN, NEW], "1 of 3 reads during the publish saw neither version: 2 rows, where it had 1 row before"),
        ([OLD, None, NEW], "1 of 3 reads during the publish saw neither version: no table"),
        ([OLD, NEW, OLD], "a reader saw the new version, and then the old one again"),
    ],
)
def test_what_readers_saw(seen, said):
    loop = ReaderLoop(SimpleNamespace(tables=["t"]))
    loop.seen["t"] = seen
    found = loop.problem("t", OLD, NEW)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_a_read_that_failed_is_reported_where_the_others_saw_whole_versions():
    loop = ReaderLoop(SimpleNamespace(tables=["t"]))
    loop.seen["t"], loop.errors["t"] = [OLD, NEW], "OSError: gone"
    assert loop.problem("t", OLD, NEW) == "a read during the publish failed 3 times in a row: OSError: gone"
