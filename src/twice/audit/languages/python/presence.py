"""What a test says about a row that was asked for: it is there, it is missing, or nothing."""

from __future__ import annotations

import ast
import re

from twice.audit.languages.python import names

# Methods that hand on what was asked for: the rows of a cursor, the chain of a query of SQLAlchemy or Django.
_HANDS_ON = frozenset(
    {
        "fetchone", "fetchall", "fetchmany", "fetchval", "first", "one_or_none", "scalar", "scalar_one_or_none", "scalars", "all", "count",
        "exists", "get", "result", "mappings", "execute", "filter", "filter_by", "where", "order_by", "limit", "options", "with_entities",
        "with_for_update", "values_list", "only", "tuples", "dicts", "get_or_none", "select_from",
    }
)  # fmt: skip
_FETCHES = frozenset({"fetchone", "fetchall", "fetchmany", "fetchval", "rowcount"})
_WRAPS = frozenset({"len", "bool", "int", "next", "list", "any"})
# A field of a row that counts rows, or says whether there is one; any other may be empty in a row that is there.
_COUNTS = re.compile(r"^(n|c|cnt|total|num\w*|\w*count\w*|\w*exists?)$", re.IGNORECASE)
_THERE: dict[tuple[type[ast.cmpop], object], bool] = {
    (ast.Gt, 0): True, (ast.GtE, 1): True, (ast.Lt, 1): False, (ast.LtE, 0): False,
}  # fmt: skip


class Presence:
    """Follows what `asks` gives through the statements after it."""

    def __init__(self, asks: ast.AST, *, narrowed: bool) -> None:
        self.asks = asks
        self.narrowed = narrowed  # asked for one row, not for all
        self._cursor = ast.dump(asks.func.value) if isinstance(asks, ast.Call) and isinstance(asks.func, ast.Attribute) else ""  # fmt: skip
        self._names: dict[str, bool] = {}  # True: it is truthy when the row is there
        self._made_of: set[str] = set()  # collections of what was found

    def pass_by(self, statement: ast.stmt) -> None:
        """Take note of a statement after the question: names that hold the answer, a cursor that is used again."""
        if isinstance(statement, ast.Assign):
            self._assigned(statement.targets, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assigned([statement.target], statement.value)
        if any(self._uses_cursor(one) for one in ast.walk(statement)):
            self._cursor = ""

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> None:
        told, made = self.tells(value), self._holds(value)
        for target in targets:
            inner = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 1 else target
            if isinstance(inner, ast.Name):
                self._name(inner.id, told, made=made)

    def _name(self, name: str, told: bool | None, *, made: bool) -> None:  # noqa: FBT001 - what a test tells
        self._names.pop(name, None)
        self._made_of.discard(name)
        if told is not None:
            self._names[name] = told
        if made:
            self._made_of.add(name)

    def _uses_cursor(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and node is not self.asks
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in names.SQL_METHODS
            and ast.dump(node.func.value) == self._cursor
        )

    def tells(self, test: ast.expr) -> bool | None:
        """Return whether a test is true because the row is there (True), or is missing (False)."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.tells(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            # All of an AND holds where it is true, and all of an OR fails where it is false.
            decisive = isinstance(test.op, ast.Or)
            told = [self.tells(one) for one in test.values]
            return decisive if decisive in told else (not decisive if set(told) == {not decisive} else None)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        if isinstance(test, ast.NamedExpr):
            told_by = self.tells(test.value)
            self._name(test.target.id, told_by, made=told_by is not None)
            return told_by
        if isinstance(test, ast.Attribute) and test.attr == "empty" and self.narrowed and self._answers(test.value):
            return False
        if isinstance(test, ast.Name) and test.id in self._names:
            return self._names[test.id] if self.narrowed else None
        return True if self.narrowed and self._answers(test) else None

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        if isinstance(op, (ast.In, ast.NotIn)):
            return isinstance(op, ast.In) if self._holds(right) else None
        told = self.tells(left)
        if told is None or not isinstance(right, ast.Constant):
            return None
        value = right.value
        if isinstance(op, (ast.Is, ast.Eq)) and value in {None, 0, 1}:
            there: bool | None = bool(value)
        elif isinstance(op, (ast.IsNot, ast.NotEq)) and value in {None, 0, 1}:
            there = not value
        else:
            there = _THERE.get((type(op), value))
        return None if there is None else there is told

    def _holds(self, value: ast.expr) -> bool:
        """Return whether an expression is made of what was found: `{row[0] for row in rows}`."""
        return any(
            self._answers(one) or (isinstance(one, ast.Name) and one.id in self._made_of) for one in ast.walk(value)
        )

    def _answers(self, node: ast.AST) -> bool:
        """Return whether an expression is what was asked for, or empty when that is."""
        if node is self.asks:
            return True
        if isinstance(node, ast.Name):
            return node.id in self._names
        if isinstance(node, ast.Await):
            return self._answers(node.value)
        if isinstance(node, ast.IfExp):
            return self._answers(node.body)
        if isinstance(node, ast.BoolOp):
            return isinstance(node.op, ast.Or) and self._answers(node.values[0])
        if isinstance(node, ast.Subscript):
            return _counts(node.slice) and self._answers(node.value)
        if isinstance(node, ast.Attribute):
            return self._is_fetched(node) or (bool(_COUNTS.match(node.attr)) and self._answers(node.value))
        return isinstance(node, ast.Call) and self._is_handed_on(node)

    def _is_handed_on(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name):
            return call.func.id in _WRAPS and bool(call.args) and self._answers(call.args[0])
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _HANDS_ON:
            return False
        return self._is_fetched(call.func) or any(self._answers(one) for one in (call.func.value, *call.args[:1]))

    def _is_fetched(self, node: ast.Attribute) -> bool:
        return node.attr in _FETCHES and bool(self._cursor) and ast.dump(node.value) == self._cursor


def _counts(index: ast.expr) -> bool:
    value = index.value if isinstance(index, ast.Constant) else None
    return value == 0 or (isinstance(value, str) and bool(_COUNTS.match(value)))
