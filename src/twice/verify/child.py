"""What a child process of a check does: join the running Spark, import the pipeline again, run windows of a case.

It reads its order from its standard input, and writes what happens as lines of JSON to the order's report. A step may
print anything.
"""

from __future__ import annotations

import functools
import json
import locale
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.config import Config
from twice.engine.spark.jvm import active
from twice.errors import ConfigError
from twice.failpoints import watched
from twice.loading import load_object
from twice.model.pipelines import Pipeline
from twice.model.windows import Window
from twice.verify.clocks import moved_clock
from twice.verify.effects import Call, Recorder
from twice.verify.sandbox import Sandbox
from twice.verify.sessions import sandboxed
from twice.verify.surroundings import other_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.verify.cases import Case

# The exit code of a child that could not carry out its order.
BROKEN = 70
# Starts a child that finds what its parent finds, wherever it works: the first argument is the parent's path.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from twice.verify.child import main; main()"


@dataclass(frozen=True)
class Order:
    """What a child is to do, in plain values."""

    config: Config
    place: str
    folder: Path
    mark: str
    inputs: Mapping[str, str]
    steps: frozenset[str]
    windows: tuple[Window, ...]
    # The steps of the case to run; None: all.
    only: tuple[str, ...] | None
    gateway: tuple[int, str]
    report: Path
    calls: Path
    # The calls that were made before: by effect and key.
    called: tuple[tuple[str, str], ...] = ()
    fail_point: str = ""
    # Environment variables of the Python workers.
    workers: Mapping[str, str] = field(default_factory=dict)
    # By how much the clock is moved, for the pipeline's own code.
    seconds: float = 0.0
    # Whether a step that reads the environment gets other values.
    other_answers: bool = False


def main() -> None:
    """Carry out the order and leave, without stopping the Spark that the parent still uses."""
    order: Order = pickle.load(sys.stdin.buffer)  # noqa: S301 - the parent wrote it
    code = BROKEN
    with order.report.open("a", buffering=1, encoding="utf-8") as report:

        def say(**what: Any) -> None:
            report.write(json.dumps(what, default=str) + "\n")

        try:
            code = _carry_out(order, say)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent reports it
            traceback.print_exc()
            say(broken=f"{type(error).__name__}: {error}".splitlines()[0])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _carry_out(order: Order, say: Callable[..., None]) -> int:
    with suppress(locale.Error):  # as a program that respects its user's settings does
        locale.setlocale(locale.LC_ALL, "")
    spark = _join(*order.gateway)
    spark.sparkContext.environment.update(order.workers)
    asked: set[str] = set()
    try:
        case = _reopened(order, spark, asked)
    except ConfigError as error:  # the pipeline's own code fails where it is imported: the check reports it
        say(status="failed", problem=error.message, steps=[])
        return error.exit_code
    os.environ["TWICE_FAILPOINT"] = order.fail_point
    say(state="ready")
    sys.stdin.buffer.readline()  # the parent gives the signal
    with active(spark), watched(lambda point: say(point=point)):
        code = _run(order, case, say)
    say(asked=sorted(asked))
    return code


def _run(order: Order, case: Case, say: Callable[..., None]) -> int:
    for window in order.windows:
        result = case.try_run(window, steps=order.only)
        problem = result.error.message if result.error else ""
        say(status=result.status, problem=problem, steps=[[step.table, step.status] for step in result.steps])
        if result.error:
            return result.exit_code
    return 0


def _reopened(order: Order, spark: SparkSession, asked: set[str]) -> Case:
    """Open the parent's case; its steps' own code runs in the surroundings that the order wants."""
    with moved_clock(order.seconds):
        pipeline = load_object(order.config, order.place, "the pipeline")
    if not isinstance(pipeline, Pipeline) or not order.steps <= set(pipeline.steps):
        raise TypeError(f"{order.place} is not the pipeline that is verified")
    recorder = Recorder([Call(effect, key, None) for effect, key in order.called], order.calls)
    sandbox = Sandbox(order.config, spark, order.folder)
    case = sandbox.reopened(order.mark, pipeline, order.inputs, order.steps, recorder)

    @contextmanager
    def surroundings() -> Iterator[None]:
        with moved_clock(order.seconds), other_answers(asked) if order.other_answers else nullcontext():
            yield

    case.pipeline.steps = {
        name: replace(step, function=_within(surroundings, step.function)) if step.function else step
        for name, step in case.pipeline.steps.items()
    }
    return case


def _within(surroundings: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with surroundings():
            return function(*arguments, **named)

    return call


def _join(port: int, secret: str) -> SparkSession:
    """Become another Python driver of a JVM that is already running."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # Whatever fails or ends here, Spark is the parent's.
    for kind in (SparkContext, SparkSession):
        setattr(kind, "stop", lambda self: None)  # noqa: ARG005, B010 - types know that methods are not assigned to
    joined = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(joined)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    for name in joined:
        del os.environ[name]
    java: Any = gateway.jvm
    context = java.JavaSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=java, _jconf=context.getConf())
    # The session of the parent stays the one that Spark falls back on.
    return sandboxed(SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf)))


def worker_start() -> dict[str, str]:
    """Return the variable that lets Python workers begin with `worker_start/sitecustomize.py`."""
    return {"PYTHONPATH": str(Path(__file__).parent / "worker_start")}
