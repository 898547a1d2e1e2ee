"""How often a source may be called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from twice.errors import DefinitionError

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Rate:
    """A number of calls per second, minute or hour.

    >>> Rate.parse("5/s").apart
    datetime.timedelta(microseconds=200000)
    """

    text: str
    apart: timedelta

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read a rate such as 5/s, 100/m or 1000/h."""
        match = _RATE.fullmatch(str(text))
        calls = float(match[1]) if match else 0.0
        if match is None or calls <= 0:
            raise DefinitionError(f'rate={text!r} must be a rate such as "5/s", "100/m" or "1000/h"')
        return cls(text.strip(), timedelta(seconds=_SECONDS[match[2]] / calls))

    def __str__(self) -> str:
        return self.text
