"""Loops over the rows of a query, in every procedural dialect: what is inserted inside comes from that query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from twice.audit.expressions import Expr
from twice.audit.model import Write
from twice.audit.queries import Query, Source

_BEGINS_QUERY = frozenset({"SELECT", "WITH"})
_FAR = 14


@dataclass
class Cursors:
    """The cursors of a routine, and the variables that hold one row of them."""

    declared: dict[str, Query] = field(default_factory=dict)
    rows: dict[str, Query] = field(default_factory=dict)
    waiting: tuple[dict[str, Query], str] | None = None  # whose query is the next statement

    def opened(self, chunk: Sequence[Token], words: Sequence[str]) -> list[Token] | None:
        """Read FOR r IN …, DECLARE c CURSOR FOR … and FETCH c INTO …; return the tokens of the query in it, if any.

        None means that the statement is none of them.
        """
        if words[0] == "FOR" and len(words) > 2 and words[2] == "IN":
            return self._loop(chunk, words)
        if words[0] == "FETCH" and "INTO" in words:
            self._fetched(words)
            return []
        if "CURSOR" in words[:4]:
            return self._declaration(chunk, words)
        return None

    def _loop(self, chunk: Sequence[Token], words: Sequence[str]) -> list[Token]:
        row = words[1].lower()
        rest = list(chunk[3:])
        if rest and rest[0].token_type is TokenType.L_PAREN and len(rest) > 1 and rest[1].text.upper() in _BEGINS_QUERY:
            rest = rest[1 : -1 if rest[-1].token_type is TokenType.R_PAREN else None]
        if not rest or rest[0].text.upper() in _BEGINS_QUERY:
            self.waiting = (self.rows, row)
            return rest
        known = self.declared.get(rest[0].text.lower())
        if known is not None:
            self.rows[row] = known
        return []

    def _declaration(self, chunk: Sequence[Token], words: Sequence[str]) -> list[Token] | None:
        at = words.index("CURSOR")
        name = words[at + 1] if words[0] == "CURSOR" and len(words) > at + 1 else words[at - 1]
        for index in range(at + 1, min(len(chunk), at + _FAR)):
            if chunk[index].text.upper() in {"FOR", "IS"}:
                self.waiting = (self.declared, name.lower())
                return list(chunk[index + 1 :])
        return None

    def _fetched(self, words: Sequence[str]) -> None:
        into = words.index("INTO")
        known = next((self.declared[word.lower()] for word in words[1:into] if word.lower() in self.declared), None)
        if known is not None:
            for word in words[into + 1 :]:
                self.rows[word.lower().lstrip("@:")] = known

    def take(self, query: Query) -> bool:
        """Give the query to the cursor or loop that waits for it; return whether one did."""
        if self.waiting is None:
            return False
        where, name = self.waiting
        where[name] = query
        self.waiting = None
        return True

    def attach(self, write: Write) -> None:
        """Let an insert of a loop's row read the query of the loop."""
        if not self.rows or write.query is None or (write.merge is not None and not write.merge.conflict):
            return
        for column in list(write.query.columns):
            for node in column.expr.walk():
                query = self.rows.get(_row_of(node))
                if query is not None and all(source.query is not query for source in write.query.sources):
                    write.query.sources.append(
                        Source(alias=_row_of(node), query=query, kind="query", place=query.place)
                    )
                    write.literal_rows = False


def _row_of(node: Expr) -> str:
    if node.kind == "column":
        return (node.table or node.name).lstrip(":@")
    return node.name.lower().lstrip("@:").partition(".")[0] if node.kind == "param" else ""
