"""Names of tables and columns: read, checked and quoted in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from twice.errors import DefinitionError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Postgres cuts longer names off silently.
_NAME_BYTES = 63
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quote(name: str) -> str:
    """Quote one identifier for Spark SQL.

    >>> quote("order`s date")
    '`order``s date`'
    """
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    r"""Quote a string literal for Spark SQL, whatever it holds.

    Backslashes and quotes are escaped; control characters go in as unicode escapes, and so does
    the dollar sign, because Spark fills in `${…}` before it reads any literal.

    >>> print(quote_text("it's"))
    'it\'s'
    """
    out = []
    for char in value:
        if char in "\\'":
            out.append("\\" + char)
        elif ord(char) < 0x20 or char in "\x7f$":
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(char)
    return "'" + "".join(out) + "'"


@dataclass(frozen=True)
class TableName:
    """A table's full name: store, namespace(s), table."""

    parts: tuple[str, ...]
    # The backfill that rebuilds the table out of sight of readers; empty for the table itself.
    shadow: str = ""

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read a dotted name; a part with odd characters is in backticks."""
        if not isinstance(text, str):
            raise DefinitionError(f"{text!r} is not a table name: write store.namespace.table")
        parts, position = [], 0
        while True:
            match = _PART.match(text, position)
            if not match:
                raise DefinitionError(f"{text!r} is not a table name: write store.namespace.table")
            parts.append(match[1].replace("``", "`") if match[1] is not None else match[2].strip())
            position = match.end()
            if position == len(text):
                break
            if text[position] != ".":
                raise DefinitionError(f"{text!r} is not a table name: write store.namespace.table")
            position += 1
        return cls(tuple(parts))

    def __post_init__(self) -> None:
        if len(self.parts) < 3:
            raise DefinitionError(
                f"{'.'.join(self.parts)!r} is not a full table name: write store.namespace.table, "
                "where the store is one of [stores.*] in twice.toml"
            )
        for part in self.parts:
            check_identifier(part, "a part of a table name")
            if part in {".", ".."} or "/" in part or "\\" in part:
                raise DefinitionError(f"{part!r} cannot be a part of a table name: it is a path")
        if not _PLAIN.fullmatch(self.parts[0]):
            raise DefinitionError(f"store {self.parts[0]!r}: use letters, digits and underscores")

    @property
    def store(self) -> str:
        """The store that the table lives in."""
        return self.parts[0]

    @property
    def namespace(self) -> tuple[str, ...]:
        """What stands between store and table."""
        return self.parts[1:-1]

    def beside(self, mark: str) -> TableName:
        """Name a table of its own beside this one, within the length of name that every database accepts."""
        last = f"{self.parts[-1]}__{mark}"
        if len(last.encode()) > _NAME_BYTES:
            known = f"_{sha256(self.parts[-1].encode()).hexdigest()[:10]}__{mark}"
            last = self.parts[-1].encode()[: _NAME_BYTES - len(known)].decode(errors="ignore") + known
        return TableName((*self.parts[:-1], last))

    def __str__(self) -> str:
        name = ".".join(part if _PLAIN.fullmatch(part) else quote(part) for part in self.parts)
        return f"{name}@{self.shadow}" if self.shadow else name

    @property
    def sql(self) -> str:
        """The name, quoted for Spark SQL."""
        return ".".join(quote(part) for part in self.parts)


def check_identifier(name: str, what: str) -> None:
    """Refuse names that some engine cannot store."""
    if not isinstance(name, str):
        raise DefinitionError(f"{what} must be a text, not {name!r}")
    if not name or name != name.strip():
        raise DefinitionError(f"{what} is empty or has spaces at an end: {name!r}")
    if any(ord(char) < 0x20 or char == "\x7f" for char in name):
        raise DefinitionError(f"{what} holds a control character: {name!r}")
    if any("\ud800" <= char <= "\udfff" for char in name):
        raise DefinitionError(f"{what} is not valid unicode: {name!r}")
    if "${" in name:
        raise DefinitionError(f"{what} holds ${{, which Spark SQL replaces by a variable: {name!r}")
