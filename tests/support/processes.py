"""Child processes of a test: Python drivers of their own on the Spark of the test, stopped and killed by their pid."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

PATIENCE = 120.0
# Children are forked from a process that has loaded PySpark and twice, and nothing else.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["tests.crash.driver"])


def until(reached: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until something is so."""
    end = time.monotonic() + patience
    while not reached():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def attach(port: int, secret: str) -> SparkSession:
    """Become another Python driver of a JVM that is already running."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    gateway = launch_gateway()
    java = gateway.jvm
    context = java.JavaSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    spark = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jvm=java, _jconf=context.getConf()))
    running = java.org.apache.spark.sql.classic.SparkSession.builder().sparkContext(context.sc()).getOrCreate()
    return SparkSession(spark, jsparkSession=running.newSession())


class Child:
    """One process, which carries out an order and writes what happens as lines of JSON to the order's file `told`."""

    def __init__(self, act: Callable[..., None], order: Any, *more: object) -> None:
        self._told = Path(order.told)
        self._process = forks.Process(target=act, args=(order, *more), daemon=True)
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
        """Wait until the process has stopped itself, at a `pause` fail point or by SIGSTOP."""
        stat = Path(f"/proc/{self.pid}/stat")
        self._until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopped")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.join(PATIENCE)

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


class Children:
    """All child processes of one test; none outlives it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        parameters = spark.sparkContext._gateway.gateway_parameters
        self._gateway = (parameters.port, parameters.auth_token)
        self._folder = folder
        self._all: list[Child] = []

    def start(self, act: Callable[..., None], order: Any, *more: object) -> Child:
        """Let a child carry out an order, a dataclass with the fields `told` and `gateway`."""
        told = self._folder / f"child-{len(self._all)}.jsonl"
        child = Child(act, replace(order, gateway=self._gateway, told=str(told)), *more)
        self._all.append(child)
        return child

    def clean_up(self) -> None:
        for child in self._all:
            child.clean_up()
