"""Effects in a sandbox: what would be sent is recorded, and nothing leaves."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.effects.calls import Answer

if TYPE_CHECKING:
    from twice.model.effects import Effect
    from twice.model.tables import Table


@dataclass(frozen=True)
class Call:
    """What an effect would have sent."""

    effect: str
    key: str
    payload: Any


@dataclass
class Recorder:
    """The calls of a case, in their order; with a file, each is also written to it as a line."""

    calls: list[Call] = field(default_factory=list)
    file: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, call: Call) -> None:
        """Record a call."""
        with self._lock:
            self.calls.append(call)
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(call.__dict__, default=str) + "\n")

    def read(self, file: Path) -> None:
        """Add the calls that another process wrote to its file."""
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                self.take(Call(**json.loads(line)))

    def find(self, key: str) -> Call | None:
        """Return the call with a key, as a provider that is asked would."""
        with self._lock:
            return next((call for call in self.calls if call.key == key), None)


@dataclass
class RecordingTarget:
    """A receiver in the place of the effect's own; it honours keys as that one does."""

    effect: str
    recorder: Recorder
    honours_keys: bool

    def send(self, payload: Any, *, key: str, timeout: float) -> Answer:  # noqa: ARG002 - as every receiver is called
        """Record what would have been sent."""
        self.recorder.take(Call(self.effect, key, payload))
        return Answer("recorded")


def recorded(effect: Effect, after: Table, recorder: Recorder) -> Effect:
    """Return the effect with a recorder as its receiver; what it would ask its provider it asks the recorder.

    The function of an effect without `to=` makes the call itself, so it is not called: its key alone is recorded. The
    same holds for a function of `on_change=`.
    """

    def ask(key: str, payload: Any = None) -> Any:  # noqa: ARG001 - as every provider is asked
        return "recorded" if recorder.find(key) else None

    def correct(key: str, *_: Any, **__: Any) -> Any:
        recorder.take(Call(effect.name, key, "corrected"))
        return "recorded"

    # A declared refusal of a changed payload is not a fault of the pipeline, and stops no check.
    on_change = correct if callable(effect.on_change) else "keep" if effect.on_change == "fail" else effect.on_change
    target = RecordingTarget(effect.name, recorder, effect.to.honours_keys if effect.to is not None else False)
    function = effect.function if effect.to is not None else _silent
    return replace(effect, after=after, to=target, on_unknown=ask, on_change=on_change, function=function, rate=None)


def _silent(rows: Any) -> str:  # noqa: ARG001 - what an effect's function takes
    return "called"
