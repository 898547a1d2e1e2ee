"""The stores of a process: threads share them, so each is opened once."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace

from twice import Table
from twice.engine import stores
from twice.errors import StoreRefused


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


def test_a_catalog_is_started_once_and_one_that_does_not_start_is_left_to_the_run(monkeypatch):
    started: list[str] = []

    def start(_: object, name: str) -> None:
        started.append(name)
        if name == "broken":
            raise StoreRefused("no catalog")

    types = {"files": SimpleNamespace(start_catalog=None), "iceberg": SimpleNamespace(start_catalog=start)}
    monkeypatch.setattr(stores, "store_type", types.__getitem__)
    config = SimpleNamespace(store=lambda name: SimpleNamespace(type="files" if name == "drop" else "iceberg"))
    tables = [Table("drop.in.raw"), Table("broken.a.b"), Table("lake.core.facts"), Table("lake.core.totals")]
    stores.Stores(config).start_catalogs(None, tables)  # type: ignore[arg-type]
    assert started == ["broken", "lake"]


def test_a_store_that_is_opened_while_others_are_released_disturbs_nobody(monkeypatch):
    class Opening:
        def release(self, _: object) -> None:
            shared.source(Table("other.core.t"))

    monkeypatch.setattr(stores, "open_store", lambda *_: Opening())
    shared = stores.Stores(SimpleNamespace(store=lambda name: name, root=None))  # type: ignore[arg-type]
    shared.source(Table("lake.core.t"))
    shared.release(None)  # type: ignore[arg-type]
