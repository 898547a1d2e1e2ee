"""What a child process of the crash tests does: attach to Spark, run one job, tell how it went, exit.

A child attaches to the JVM of the test process, so that a killed driver costs a second and not a
new Spark. `python -m tests.crash.driver ORDER.json` does the same with a JVM of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stamina

from tests.crash import jobs
from tests.support.processes import attach
from twice import config as configuration
from twice.api import asked_window, runtime
from twice.engine.attempt import compute
from twice.engine.plan import plan
from twice.engine.run import execute

# Loaded here, so that the process from which the children are forked has them already.
with contextlib.suppress(ImportError):
    import alembic.command  # noqa: F401
    import pyspark.sql.classic.dataframe  # noqa: F401

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from twice.engine.events import Event


@dataclass(frozen=True)
class RunOrder:
    """One run, as the test wants it."""

    config: str
    told: str
    kind: str
    raw: str
    target: str
    first: str
    end: str
    wait: float = 0.0
    fail_point: str = ""
    hold: str = ""
    gateway: tuple[int, str] | None = None

    def to_file(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path


def run(order: RunOrder, barrier: Barrier | None = None) -> int:
    """Run the order; every event and the result become a line of the file `told`."""
    os.environ["TWICE_FAILPOINT"] = order.fail_point
    os.environ[jobs.HOLD] = order.hold
    compute.BATCH = jobs.BATCH
    stamina.set_testing(True, attempts=100, cap=True)
    config = configuration.load(Path(order.config))
    with Path(order.told).open("a", buffering=1) as told:

        def tell(**what: Any) -> None:
            told.write(json.dumps(what, default=str) + "\n")

        def listen(event: Event) -> None:
            tell(state=event.state, detail=event.detail)

        pipeline = jobs.pipeline(order.kind, order.raw, order.target)
        stages = plan(pipeline, asked_window(pipeline, None, order.first, order.end))
        spark = attach(*order.gateway) if order.gateway else None
        with runtime(config, spark=spark, listener=listen) as shop:
            tell(state="attached")
            if barrier is not None:
                barrier.wait(60)
            result = execute(shop, pipeline, stages, wait=order.wait)
        tell(result=result.to_json(), error=type(result.error).__name__)
    return result.exit_code


def child(order: RunOrder, barrier: Barrier | None = None) -> None:
    """Run the order in a forked process; leave without stopping the Spark that others use."""
    code = 70
    try:
        code = run(order, barrier)
    except BaseException as error:
        with Path(order.told).open("a") as told:
            told.write(json.dumps({"crashed": repr(error)}) + "\n")
        raise
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(run(RunOrder(**json.loads(Path(sys.argv[1]).read_text()))))
