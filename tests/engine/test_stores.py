"""The stores of a process: threads share them, so each is opened once."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace

from twice import Table
from twice.engine import stores


def test_two_threads_that_ask_for_a_store_first_get_the_same_one(monkeypatch):
    # Given a store that takes its time to open: until another thread opens it too, or long enough
    made: list[object] = []
    both = threading.Barrier(2)

    def opened(*_: object) -> object:
        with suppress(threading.BrokenBarrierError):  # only one thread comes, as it must be
            both.wait(timeout=0.5)
        made.append(object())
        return made[-1]

    monkeypatch.setattr(stores, "open_store", opened)
    shared = stores.Stores(SimpleNamespace(store=lambda name: name, root=None))  # type: ignore[arg-type]
    found: list[object] = []
    # When two threads ask for it at the same time
    threads = [threading.Thread(target=lambda: found.append(shared.source(Table("lake.core.t")))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Then it was opened once
    assert len(made) == 1
    assert found == [made[0], made[0]]


def test_a_store_that_is_opened_while_others_are_released_disturbs_nobody(monkeypatch):
    class Opening:
        def release(self, _: object) -> None:
            shared.source(Table("other.core.t"))

    monkeypatch.setattr(stores, "open_store", lambda *_: Opening())
    shared = stores.Stores(SimpleNamespace(store=lambda name: name, root=None))  # type: ignore[arg-type]
    shared.source(Table("lake.core.t"))
    shared.release(None)  # type: ignore[arg-type]
