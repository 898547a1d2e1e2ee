"""What makes calling a real provider hard: a rate limit, errors and slow answers, all of them repeatable."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from examples.shop.dice import Dice


@dataclass(frozen=True)
class Trouble:
    """Which calls fail or are slow: the same ones for the same seed, counted from the server's start."""

    seed: int = 1
    errors: int = 0  # of 100 calls
    slow: int = 0  # of 100 calls
    slow_seconds: float = 0.5

    def fails(self, call: int) -> bool:
        """Return whether the n-th call gets a 500."""
        return Dice(self.seed).roll("payments error", 100, 0, call) < self.errors

    def delay(self, call: int) -> float:
        """Return how many seconds the n-th call has to wait."""
        return self.slow_seconds if Dice(self.seed).roll("payments slow", 100, 0, call) < self.slow else 0.0


@dataclass
class Limit:
    """A number of calls per second, and a burst on top; a caller over the limit gets the time to wait."""

    per_second: float = 25.0
    burst: int = 25
    clock: Callable[[], float] = time.monotonic
    _free: float = field(default=0.0, init=False)
    _seen: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise ValueError(f"a limit must let calls through: {self.per_second} a second, burst {self.burst}")
        self._free, self._seen = float(self.burst), self.clock()

    def wait(self) -> int:
        """Use up one call; return 0, or the whole seconds until a call is free."""
        with self._lock:
            now = self.clock()
            self._free = min(float(self.burst), self._free + (now - self._seen) * self.per_second)
            self._seen = now
            if self._free >= 1:
                self._free -= 1
                return 0
            return math.ceil((1 - self._free) / self.per_second)
