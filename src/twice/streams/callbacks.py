"""What Spark gets when a batch fails: the error itself is kept in Python, where it is reported once."""

from __future__ import annotations

import logging


def batch_failed(number: int) -> RuntimeError:
    """Return what ends the query; Java searches its text for known errors, and may not survive a long one."""
    return RuntimeError(f"batch {number} failed")


def quiet_callbacks() -> None:
    """Keep the gateway from printing the traceback of an error that a batch raises; the error is still passed on."""
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
