"""Other processes that work on a backfill, each a Python driver of its own on the Spark of the test."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BackfillOrder:
    """What a child does: start or continue a backfill."""

    config: str
    space: str
    told: str = ""
    gateway: tuple[int, str] | None = None
    backfill: str = ""
    days: int = 10
    chunk: int | None = 1
    parallel: int = 1
    # Lay the chunks out in no order at all.
    shuffled: bool = False
    slow: float = 0.0
    swap: bool = False
    shadow: bool = False
    first: int = 1
    fail_point: str = ""
    # Stop the process, as SIGSTOP does, or pause the backfill, once so many partitions are done.
    stop_at: int = 0
    pause_at: int = 0


def shuffle(ledger) -> None:
    """Let chunks be laid out in another order than that of their days."""
    lay_out = ledger.backfills.chunks.lay_out

    def shuffled(backfill, stage, step, wanted, note):
        return lay_out(backfill, stage, step, random.Random(7).sample(wanted, len(wanted)), note)

    ledger.backfills.chunks.lay_out = shuffled


def steering(order: BackfillOrder, ledger) -> Callable[[object], None]:
    """Return what listens to the notes of a backfill and stops or pauses it when its number is reached."""

    once = threading.Lock()

    def heard(note) -> None:
        done = ledger.backfills.get(note.backfill).count("done") if note.kind == "done" else 0
        if order.pause_at and done >= order.pause_at and once.acquire(blocking=False):
            ledger.backfills.pause(note.backfill)
        if order.stop_at and done >= order.stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)

    return heard


def child(order: BackfillOrder) -> None:
    """Work on the backfill, write down how it ended, leave without stopping the Spark that others use."""
    from tests.backfill.conftest import Shop
    from tests.support.processes import attach
    from tests.support.project import Lab
    from twice import config as configuration
    from twice.backfills.shadows import ShadowOf
    from twice.ledger import open_ledger

    os.setpgid(0, 0)
    code = 70
    try:
        config = configuration.load(Path(order.config))
        lab = Lab(attach(*order.gateway), open_ledger(config.ledger), config, order.space, Path(order.told).parent)
        shop = Shop(lab)
        shop.pipeline = shop.build(slow=order.slow)
        shop.heard = steering(order, lab.ledger)
        if order.fail_point:
            os.environ["TWICE_FAILPOINT"] = order.fail_point
        if order.swap:
            ShadowOf(shop.runtime, shop.pipeline, lab.ledger.backfills.get(order.backfill)).swap()
            os._exit(0)
        if order.backfill:
            summary = shop.project().go_on(lab.ledger.backfills.get(order.backfill))
        else:
            if order.shuffled:
                shuffle(lab.ledger)
            how = {"chunk": order.chunk, "parallel": order.parallel}
            if order.shadow:
                how |= {"shadow": True, "only": ("all",)}
            summary = shop.backfill(order.first, order.days + 1, **how)
        code = summary.exit_code
        Path(order.told).write_text(json.dumps({"result": summary.to_json()}))
    except BaseException as error:
        Path(order.told).write_text(json.dumps({"crashed": repr(error)}))
        raise
    finally:
        os._exit(code)
