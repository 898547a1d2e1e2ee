"""Processes beside this one, for what no thread can show: a death, another environment, two runs at once."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from twice.engine.spark import jvm
from twice.engine.spark.job_group import cancel_run
from twice.verify.child import START, Order
from twice.verify.trial import NotRun

if TYPE_CHECKING:
    from twice.model.windows import Window
    from twice.verify.cases import Case
    from twice.verify.trial import Trial

# A child that takes longer than this counts as hung.
_PATIENCE = 600.0


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, and how each of its runs did; `broken` is why it could not run at all."""

    code: int
    runs: Sequence[Mapping[str, Any]]
    broken: str = ""
    # The variables that steps read, where the child was to return other values.
    asked: Sequence[str] = ()
    # The last fail point that it reached.
    point: str = ""

    @property
    def killed(self) -> bool:
        """Return whether it was killed: at its fail point, unless it is `broken`."""
        return self.code == -signal.SIGKILL

    @property
    def problem(self) -> str:
        """What stopped it; empty if nothing did."""
        return self.broken or next((run["problem"] for run in self.runs if run["problem"]), "")

    def published(self) -> list[str]:
        """The tables that it published, each as often as it did."""
        return [table for run in self.runs for table, status in run["steps"] if status == "published"]


class Child:
    """One process; it imports what it needs, and then waits for an order."""

    def __init__(self, folder: Path, environment: Mapping[str, str], directory: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.log = folder / "log.txt"
        paths = [str(Path(place).resolve()) for place in sys.path]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(paths)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
            )
        self.pid = self._process.pid

    def begin(self, order: Order) -> None:
        """Give the child its order; it gets ready, and waits."""
        self._send(pickle.dumps(replace(order, report=self.folder / "report.jsonl", calls=self.folder / "calls.jsonl")))

    def go(self) -> None:
        """Let the child run."""
        self._send(b"go\n")

    def until_ready(self) -> None:
        """Wait until the child could run at once; or has ended."""
        report, end = self.folder / "report.jsonl", time.monotonic() + _PATIENCE
        while self._process.poll() is None and not (report.exists() and report.stat().st_size):
            if time.monotonic() > end:
                self.stop()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)

    def end(self) -> Ended:
        """Wait for the end."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.stop()
            return Ended(-signal.SIGKILL, [], f"it did not end within {_PATIENCE:g} seconds")
        return self._ended(code)

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _ended(self, code: int) -> Ended:
        report = self.folder / "report.jsonl"
        text = report.read_text(encoding="utf-8") if report.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        broken = next((line["broken"] for line in lines if "broken" in line), "")
        runs = [line for line in lines if "steps" in line]
        if not broken and not runs and code != -signal.SIGKILL:
            last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
            broken = last[0] if last else f"it ended with exit code {code}"
        asked = next((line["asked"] for line in lines if "asked" in line), ())
        points = [line["point"] for line in lines if "point" in line]
        return Ended(code, runs, broken, asked, points[-1] if points else "")

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        with suppress(OSError):  # it has already ended: `end` reports how
            self._process.stdin.write(data)
            self._process.stdin.flush()


class Children:
    """The processes of one check; none outlives it, and none stops Spark."""

    def __init__(self, trial: Trial) -> None:
        if not trial.place:
            raise NotRun(
                "it needs a second process, which cannot import a pipeline that is defined inside a function: "
                "put the pipeline into a module"
            )
        self._trial = trial
        self._started: list[tuple[Case, Child]] = []
        self._spare: Child | None = None

    def __enter__(self) -> Children:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in [*(child for _, child in self._started), *filter(None, [self._spare])]:
            child.stop()
        self._clear()

    def prepare(self) -> None:
        """Start the next child early, while something else is at work."""
        if self._spare is None:
            self._spare = self._new(dict(os.environ), Path.cwd())

    def start(
        self,
        case: Case,
        *windows: Window,
        steps: Sequence[str] | None = None,
        fail_point: str = "",
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        workers: Mapping[str, str] | None = None,
        seconds: float = 0.0,
        other_answers: bool = False,
    ) -> Child:
        """Let a child get ready to run windows of a case; `environment` is what differs from that of this process."""
        if environment is None and directory is None:
            self.prepare()
            child, self._spare = self._spare, None
            assert child is not None  # noqa: S101 - just prepared
        else:
            child = self._new({**os.environ, **(environment or {})}, directory or Path.cwd())
        trial = self._trial
        order = Order(
            config=trial.sandbox.config,
            place=trial.place,
            folder=trial.sandbox.folder,
            mark=case.mark,
            inputs=case.folders,
            steps=frozenset(case.pipeline.steps),
            windows=windows,
            only=None if steps is None else tuple(steps),
            gateway=jvm.address(trial.sandbox.spark),
            report=child.folder,
            calls=child.folder,
            called=tuple((call.effect, call.key) for call in case.recorder.calls),
            fail_point=fail_point,
            workers=workers or {},
            seconds=seconds,
            other_answers=other_answers,
        )
        self._started.append((case, child))
        child.begin(order)
        return child

    def run(self, case: Case, *windows: Window, **how: Any) -> Ended:
        """Start a child, let it run, and wait for its end."""
        child = self.start(case, *windows, **how)
        child.go()
        return self.end(child)

    def end(self, child: Child) -> Ended:
        """Wait for a child's end; the calls that its effects made are the case's."""
        ended = child.end()
        case = next(case for case, each in self._started if each is child)
        case.recorder.read(child.folder / "calls.jsonl")
        if ended.killed:
            self._forget(case, child)
        return ended

    def _forget(self, case: Case, child: Child) -> None:
        """Stop the Spark jobs that a dead process no longer waits for, and drop what it cached."""
        for run in case.runtime.ledger.runs.list():
            if run.owner.pid == child.pid:
                cancel_run(self._trial.sandbox.spark, run.id)
        self._clear()

    def _new(self, environment: Mapping[str, str], directory: Path) -> Child:
        place = self._trial.sandbox.folder / "children"
        number = len([*place.glob("*")]) if place.exists() else 0
        return Child(place / str(number), environment, directory)

    def _clear(self) -> None:
        # What a dead process had cached would stay in the memory of the Spark that it used.
        self._trial.sandbox.spark.catalog.clearCache()
