"""What the tokens of a statement that cannot be parsed show: its target, its mode, and the clocks in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import Expr, Origin
from twice.audit.functions import CLOCKS, origin_kind
from twice.audit.languages.sql.items import Item, Read
from twice.audit.languages.sql.sources import HOLE, SqlText
from twice.audit.model import Mode, Target, Write
from twice.audit.places import Place
from twice.audit.queries import Column, Query, Source

_NAME = r"([\w.\"`\[\]#@$*{}:-]+)"
_HEADS: list[tuple[re.Pattern[str], Mode]] = [
    (re.compile(rf"\bINSERT\s+OVERWRITE\s+(?:TABLE\s+)?{_NAME}", re.IGNORECASE), Mode.OVERWRITE),
    (re.compile(rf"\b(?:INSERT\s+OR\s+REPLACE|REPLACE)\s+INTO\s+(?:TABLE\s+)?{_NAME}", re.IGNORECASE), Mode.UPSERT),
    (re.compile(rf"\bINSERT\s+(?:OR\s+)?IGNORE\s+(?:INTO\s+)?(?:TABLE\s+)?{_NAME}", re.IGNORECASE), Mode.INSERT_NEW),
    (re.compile(rf"\bBULK\s+INSERT\s+{_NAME}", re.IGNORECASE), Mode.APPEND),
    (re.compile(rf"\bINSERT\s+INTO\s+(?:TABLE\s+)?{_NAME}", re.IGNORECASE), Mode.APPEND),
    (re.compile(rf"\bCOPY\s+INTO\s+{_NAME}", re.IGNORECASE), Mode.APPEND),
    (re.compile(rf"\bCOPY\s+{_NAME}\s*(?:\([^)]*\))?\s+FROM\b", re.IGNORECASE), Mode.APPEND),
    (re.compile(rf"\bLOAD\s+DATA\s+.*?\bINTO\s+TABLE\s+{_NAME}", re.IGNORECASE | re.DOTALL), Mode.APPEND),
    (re.compile(rf"\bMERGE\s+(?:INTO\s+)?{_NAME}", re.IGNORECASE), Mode.MERGE),
    (re.compile(rf"\bDELETE\s+FROM\s+{_NAME}", re.IGNORECASE), Mode.DELETE),
    (re.compile(rf"\bTRUNCATE\s+(?:TABLE\s+)?{_NAME}", re.IGNORECASE), Mode.TRUNCATE),
    (re.compile(rf"\bDROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?{_NAME}", re.IGNORECASE), Mode.DROP),
    (re.compile(rf"\bCREATE\s+OR\s+REPLACE\s+(?:TRANSIENT\s+)?TABLE\s+{_NAME}", re.IGNORECASE), Mode.OVERWRITE),
    (re.compile(rf"\bUPDATE\s+{_NAME}\s+(?:AS\s+\w+\s+)?SET\b", re.IGNORECASE), Mode.UPDATE),
]
_WORD = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|[A-Za-z_]\w*|\(|\)", re.DOTALL)
_DECIDES = frozenset({"WHERE", "HAVING", "QUALIFY", "ON"})
_ELSEWHERE = frozenset({"SELECT", "SET", "VALUES", "GROUP", "ORDER", "FROM"})
_AFTER = re.compile(r"[^,\n]*?\bAS\s+\"?(\w+)", re.IGNORECASE)
_BEFORE = re.compile(r"(\w+)[\"`\]]?\s*=[^=,]*$")
_LONGEST = 200_000


def read_by_tokens(source: SqlText, text: str, first_line: int) -> Iterator[Item]:
    """Yield what the words of one statement show; `text` starts on `first_line` of the source."""
    text = text[:_LONGEST]
    bare = _without_comments(text)
    if re.match(r"\s*CREATE\s+(OR\s+REPLACE\s+)?PIPE\b", bare, re.IGNORECASE):  # Snowpipe remembers its files
        return
    query = _query(source, text, first_line)
    for pattern, mode in _HEADS:
        match = pattern.search(bare)
        if match:
            place = _place(source, bare, match.start(), first_line)
            name = source.readable(
                match[1].strip('"`[]').replace('"', "").replace("`", "").replace("[", "").replace("]", "")
            )
            temporary = name.startswith(("#", "@"))
            loads = next((word for word in ("COPY", "LOAD DATA", "BULK INSERT") if word[:4] in pattern.pattern[:8]), "")
            write = Write(
                Target(name.lower(), temporary=temporary), mode, place, query=query, via="copy" if loads else "sql"
            )
            write.api = loads
            if loads == "LOAD DATA" and re.search(r"\bREPLACE\s+INTO\b", bare, re.IGNORECASE):
                write.mode = Mode.UPSERT
            if mode is Mode.OVERWRITE and re.search(r"\bPARTITION\s*\(", bare, re.IGNORECASE):
                write.mode = Mode.OVERWRITE_PARTITIONS
            if mode is Mode.APPEND and re.search(r"\bON\s+(CONFLICT|DUPLICATE\s+KEY)\b", bare, re.IGNORECASE):
                write.mode = Mode.UPSERT
            if mode in {Mode.DELETE, Mode.UPDATE} and query.filters:
                write.predicate = query.filters[0]
                write.query = None
            yield write
            return
    if query.columns or query.filters:
        yield Read(query, query.place)


def _query(source: SqlText, text: str, first_line: int) -> Query:
    query = Query(place=_place(source, text, len(text) - len(text.lstrip()), first_line))
    last = ""
    for match in _WORD.finditer(text):
        word = match[0].upper()
        if word.startswith(("'", "--", "/*")):
            for hole in HOLE.finditer(match[0]):
                _add(query, source, source.holes.get(int(hole[1])), last, text, match)
            continue
        if word in _DECIDES or word in _ELSEWHERE:
            last = word
        hole_match = HOLE.fullmatch(match[0])
        if hole_match:
            _add(query, source, source.holes.get(int(hole_match[1])), last, text, match)
        elif word in {"FROM", "JOIN"}:
            after = re.match(rf"\s*{_NAME}", text[match.end() : match.end() + 200])
            if after:
                query.sources.append(Source(source.readable(after[1].strip('"`[]').lower()), place=query.place))
        elif word.lower() in CLOCKS:
            called = text[match.end() : match.end() + 40].lstrip().startswith("(")
            before = text[: match.start()].rstrip()[-1:]
            if before in {".", "@", '"', "`", "["} or (
                not called and not word.startswith(("CURRENT_", "SYS", "LOCAL"))
            ):
                continue
            if text[match.end() : match.end() + 1] in {".", '"', "`"} or text[
                : match.start()
            ].rstrip().upper().endswith(" AS"):
                continue
            kind = origin_kind(word, 0)
            place = _place(source, text, match.start(), first_line)
            if kind:
                node = Expr("call", word.lower(), place=place, origins=frozenset({Origin(kind, match[0], place)}))
                _add(query, source, node, last, text, match)
    return query


def _add(query: Query, source: SqlText, node: Expr | None, last: str, text: str, match: re.Match[str]) -> None:
    if node is None:
        return
    if last in _DECIDES:
        query.filters.append(node)
    elif last in {"SELECT", "SET", "VALUES"}:
        alias = _AFTER.match(text[match.end() : match.end() + 120])
        if last == "SET":
            alias = _BEFORE.search(text[max(0, match.start() - 120) : match.start()])
        name = source.readable(alias[1].lower()) if alias else "{…}"  # one of the columns, and it is not known which
        query.columns.append(Column(name, node, node.place))


def _place(source: SqlText, text: str, offset: int, first_line: int) -> Place:
    before = text[:offset]
    return source.place(first_line + before.count("\n"), offset - (before.rfind("\n") + 1) + 1)


def _without_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return "".join("\n" if char == "\n" else " " for char in match[0])

    return re.sub(r"--[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)
