"""What the form of branches, loops and `with` shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard


def asked_for_missing(test: ast.expr) -> Iterator[str]:
    """Yield the names that a test finds to be missing: `not x`, `x is None`, `x == ""`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from asked_for_present(test.operand)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, (ast.Name, ast.Attribute)):
        right = test.comparators[0]
        if isinstance(test.ops[0], (ast.Is, ast.Eq)) and isinstance(right, ast.Constant) and right.value in {None, ""}:
            yield test.left.id if isinstance(test.left, ast.Name) else test.left.attr
    elif isinstance(test, ast.BoolOp):
        for one in test.values:
            yield from asked_for_missing(one)


def asked_for_present(test: ast.expr) -> Iterator[str]:
    """Yield the names that a test finds to be there: `x`, `x is not None`, `x in known`."""
    if isinstance(test, ast.Name):
        yield test.id
    elif isinstance(test, ast.Attribute):
        yield test.attr
    elif (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.IsNot, ast.NotEq, ast.Gt, ast.GtE))
    ):
        for node in ast.walk(test.left):
            if isinstance(node, ast.Name):
                yield node.id
    elif (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In)) or isinstance(test, ast.Call):
        yield from (node.id for node in ast.walk(test) if isinstance(node, ast.Name))


def ends(body: Sequence[ast.stmt]) -> bool:
    """Return whether a block leaves the one around it: return, raise, continue, break."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def creates_if_missing(node: ast.Try) -> bool:
    """Return whether a block does nothing but create a table, and the job continues if it exists."""
    if len(node.body) > _FEW or not node.handlers or not all(_expects_it(handler) for handler in node.handlers):
        return False
    said = [word for statement in node.body for one in ast.walk(statement) for word in _words(one)]
    return any("create" in word for word in said) and not any(_BRINGS.search(word) for word in said)


_FEW = 3
_BRINGS = re.compile(r"insert|copy|merge|update|load|write|to_sql|upsert|append")


def _expects_it(handler: ast.ExceptHandler) -> bool:
    """Return whether the code expects an existing table: a named error, or nothing is done about any."""
    named = handler.type is not None and ast.unparse(handler.type) not in {"Exception", "BaseException"}
    return not ends(handler.body) and (named or isinstance(handler.body[0], ast.Pass))


def _words(node: ast.AST) -> Iterator[str]:
    """Yield the names of what is called, and the verbs of statements."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from node.value.lower().split()[:1]
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield (node.id if isinstance(node, ast.Name) else node.attr).lower()


def opens_transaction(source: str) -> bool:
    """Return whether `with` of such an expression is a transaction."""
    return any(word in source for word in (".begin(", ".transaction(", "atomic(", "transaction.atomic", "session_scope", "Session(", "sessionmaker")) or (
        source in {"conn", "connection", "con", "db", "self.conn", "self.connection"} or source.endswith((".conn", ".connection"))
        or "psycopg2.connect(" in source or "psycopg.connect(" in source or "sqlite3.connect(" in source or "get_conn()" in source or "pymysql.connect(" in source
    )  # fmt: skip


def writes_lines(body: list[ast.stmt]) -> bool:
    """Return whether a loop writes line by line, so that its order shows."""
    calls = (one.func for part in body for one in ast.walk(part) if isinstance(one, ast.Call))
    return any(
        isinstance(one, ast.Attribute) and one.attr in {"write", "writerow", "writelines", "writerows"} for one in calls
    )


def is_enumerate(node: ast.expr) -> TypeGuard[ast.Call]:
    """Return whether an expression is `enumerate(…)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "enumerate"
        and bool(node.args)
    )
