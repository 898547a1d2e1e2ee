"""Surrogate keys over plain Python values: the same key in every run, on every machine.

A key is the first 128 bits of SHA-256, in hex, over the values one after the other. Each value is
written as a kind letter, the length of its text in bytes, a colon and the text; null is `~`.
The letter and the length keep neighbours apart, so values cannot run into each other.

| kind                    | letter | text                                                       |
|-------------------------|--------|------------------------------------------------------------|
| null                    | `~`    | (neither length nor text)                                  |
| string                  | `s`    | itself, in UTF-8                                           |
| boolean                 | `b`    | `true` or `false`                                          |
| integer, decimal        | `n`    | plain decimal digits, no exponent, no trailing zeros       |
| date                    | `d`    | `2026-04-25`                                               |
| timestamp (an instant)  | `t`    | `2026-04-25 22:15:00.000000`, in UTC                       |
| binary                  | `x`    | base64                                                     |

`twice.content.keys` computes the same in Spark.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import date, datetime, timezone
from decimal import Decimal

from twice.errors import DefinitionError

NULL = "~"
# The widest number that Spark holds is decimal(38, s).
_DIGITS = 38


def key_hash(*values: object) -> str:
    """Give the surrogate key of the values: 32 hexadecimal characters, the same as `key_of` in Spark.

    >>> from decimal import Decimal
    >>> from twice import key_hash
    >>> key_hash("ab", "c") == key_hash("a", "bc")
    False
    >>> key_hash(1) == key_hash(Decimal("1.00"))
    True
    >>> key_hash("2026-04-25", 7)
    '4e0a9b79fd616677ac62117575bd650b'
    """
    if not values:
        raise DefinitionError("a key needs at least one value: key_hash(order_date, region)")
    return hashlib.sha256(b"".join(map(_encode, values))).hexdigest()[:32]


def _encode(value: object) -> bytes:
    if value is None:
        return NULL.encode()
    kind, text = _canonical(value)
    return b"%s%d:%s" % (kind.encode(), len(text), text)


def _canonical(value: object) -> tuple[str, bytes]:
    # bool is an int and datetime is a date: the narrower kind is checked first.
    if isinstance(value, str):
        return "s", _utf8(value)
    if isinstance(value, bool):
        return "b", b"true" if value else b"false"
    if isinstance(value, (int, Decimal)):
        return "n", _number(value).encode()
    if isinstance(value, datetime):
        return "t", _instant(value).encode()
    if isinstance(value, date):
        return "d", value.isoformat().encode()
    if isinstance(value, (bytes, bytearray)):
        return "x", base64.b64encode(value)
    if isinstance(value, float):
        raise DefinitionError(
            f"a key cannot be made of the float {value!r}: floats that look equal may differ in their "
            "last bit. Use a Decimal, or an integer number of the smallest unit"
        )
    raise DefinitionError(
        f"a key cannot be made of a {type(value).__name__}: use None, str, bool, int, Decimal, date, "
        "an aware datetime or bytes"
    )


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise DefinitionError(
            f"a key cannot be made of {value!r}: it holds half of a surrogate pair, which no UTF-8 text can"
        ) from None


def _number(value: int | Decimal) -> str:
    if isinstance(value, Decimal) and not value.is_finite():
        raise DefinitionError(f"a key cannot be made of the number {value}: it is not finite")
    if value == 0:
        return "0"
    number = Decimal(value)
    if not -_DIGITS <= number.adjusted() < _DIGITS:
        raise DefinitionError(
            f"a key cannot be made of a number with more than {_DIGITS} digits: Spark has no type for it. "
            "Use it as text"
        )
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _instant(value: datetime) -> str:
    if value.utcoffset() is None:
        raise DefinitionError(
            f"a key cannot be made of the naive datetime {value.isoformat()}: it names no instant. "
            "Give it a time zone, or use its text"
        )
    try:
        utc = value.astimezone(timezone.utc).replace(tzinfo=None)
    except OverflowError:
        raise DefinitionError(
            f"a key cannot be made of {value.isoformat()}: in UTC it is outside the years 1 to 9999"
        ) from None
    return utc.isoformat(sep=" ", timespec="microseconds")
