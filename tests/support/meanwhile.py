"""What happens beside a step while its code runs: a step itself cannot write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def meanwhile(action: Callable[[], Result]) -> Result:
    """Do something in another thread, as another program would, and wait for its end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result()
