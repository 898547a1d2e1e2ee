"""How big the shop is, read once from the environment so that one run never sees two sizes."""

from __future__ import annotations

import os
from datetime import date


def _positive(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.replace("_", "").isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number above 0, got {text!r}; try {name}={default}")
    return int(text)


def _day(name: str, default: str) -> date:
    text = os.environ.get(name, default)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name} must be a date, got {text!r}; try {name}={default}") from None


ORDERS_PER_DAY = _positive("TWICE_SHOP_ORDERS", 10_000)
CUSTOMERS = _positive("TWICE_SHOP_CUSTOMERS", 500)
PRODUCTS = _positive("TWICE_SHOP_PRODUCTS", 20)
# What the warehouse has of each product at first.
OPENING_STOCK = _positive("TWICE_SHOP_STOCK", 1_000_000)
# On its opening day the customer system delivers every customer, later only what changed.
OPENING = _day("TWICE_SHOP_OPENING", "2026-04-25")
