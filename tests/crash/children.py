"""Starting, stopping and killing the child processes of a test, each by its own pid."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash import driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

    from pyspark.sql import SparkSession

PATIENCE = 90.0
# Children are forked from a process that has loaded PySpark and twice, and nothing else.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["tests.crash.driver"])


def until(reached: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until something is so."""
    end = time.monotonic() + patience
    while not reached():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


class Child:
    """One driver process."""

    def __init__(self, order: driver.Order, barrier: Barrier | None = None) -> None:
        self._told = Path(order.told)
        self._process = forks.Process(target=driver.child, args=(order, barrier), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def told(self) -> list[dict[str, Any]]:
        """What the child has said so far."""
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def states(self) -> list[str]:
        return [line["state"] for line in self.told() if "state" in line]

    def until_it_says(self, state: str) -> None:
        self._until(lambda: state in self.states(), f"said {state!r}")

    def until_stopped(self) -> None:
        """Wait until a `pause` fail point has stopped the process."""
        stat = Path(f"/proc/{self.pid}/stat")
        self._until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopped")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> dict[str, Any]:
        """Wait for the end; return the exit code and what the child said of its run."""
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, f"the child still runs: {self.told()}"
        last = self.told()[-1] if self.told() else {}
        return {"steps": [], **last.get("result", {}), **last, "exit": self._process.exitcode}

    def clean_up(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(10)

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            assert self._process.is_alive(), f"ended before it {what}: {self.told()}"
            return reached()

        until(looked)


class Nursery:
    """All children of one test; none outlives it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        parameters = spark.sparkContext._gateway.gateway_parameters
        self._gateway = (parameters.port, parameters.auth_token)
        self._folder = folder
        self._children: list[Child] = []

    def start(self, order: driver.Order, barrier: Barrier | None = None) -> Child:
        told = self._folder / f"child-{len(self._children)}.jsonl"
        child = Child(replace(order, gateway=self._gateway, told=str(told)), barrier)
        self._children.append(child)
        return child

    def clean_up(self) -> None:
        for child in self._children:
            child.clean_up()
