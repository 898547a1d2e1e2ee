"""Names of folders: values and names escaped as Hive and Spark do it."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone

# What Spark gives to a value that is null, and to an empty text, too.
NOTHING = "__HIVE_DEFAULT_PARTITION__"
_ODD = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    r"""Write a text as part of a path.

    >>> escape("50% of a/b")
    '50%25 of a%2Fb'
    """
    return _ODD.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape(text: str) -> str:
    r"""Read a text from a path.

    >>> unescape("50%25 of a%2Fb")
    '50% of a/b'
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def folder_name(part: str) -> str:
    """Return the folder of a namespace or table; what readers would pass over gets an escaped first letter.

    >>> folder_name("_old"), folder_name("orders")
    ('%5Fold', 'orders')
    """
    found = escape(part)
    return f"%{ord(found[0]):02X}{found[1:]}" if found[0] in "._" else found


def split(name: str) -> tuple[str, str | None] | None:
    """Return the column and the value that a partition's folder stands for; None if it is no such folder.

    >>> split("tenant=a%2Fb"), split("tenant=__HIVE_DEFAULT_PARTITION__"), split("other")
    (('tenant', 'a/b'), ('tenant', None), None)
    """
    column, found, value = name.partition("=")
    if not found or not column:
        return None
    return unescape(column), None if value == NOTHING else unescape(value)


def moment(text: str | None, *, sub_day: bool) -> date | datetime | None:
    """Read the value of a time partition: a date, or an instant that is written in UTC."""
    try:
        if text is None:
            return None
        if not sub_day:
            return date.fromisoformat(text)
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
