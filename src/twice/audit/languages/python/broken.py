"""What is known of a Python file that cannot be parsed: the SQL in its strings, and the modes of its writes."""

from __future__ import annotations

import re

from twice.audit.languages.building import JobBuilder
from twice.audit.languages.python.names import SQL_WRITE
from twice.audit.languages.sql.fallback import read_by_tokens
from twice.audit.languages.sql.items import Read
from twice.audit.languages.sql.sources import SqlText
from twice.audit.model import Mode, Target, Write
from twice.audit.places import Place

_STRING = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'|"([^"\n]*)"|\'([^\'\n]*)\'', re.DOTALL)
_MODE = re.compile(
    r"\.mode\(\s*[\"'](append|overwrite)[\"']\s*\)(?:[^\n]*?\.(?:saveAsTable|save|parquet|insertInto)\(\s*[\"']([^\"']+)[\"'])?"
)


def read_broken(builder: JobBuilder, text: str) -> None:
    """Read by tokens what cannot be parsed."""
    for match in _STRING.finditer(text[:500_000]):
        body = next((group for group in match.groups() if group), "")
        if SQL_WRITE.match(body):
            first = text.count("\n", 0, match.start()) + 1
            source = SqlText(body, range(first, first + body.count("\n") + 1))
            for item in read_by_tokens(source, body, 1):
                builder.add_query(item.query) if isinstance(item, Read) else builder.add_items([item])
    for match in _MODE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        mode = Mode.APPEND if match[1] == "append" else Mode.OVERWRITE
        builder.add_write(Write(Target((match[2] or "").lower()), mode, Place(line), via="dataframe", api="write"))
