"""A value is changed relative to itself.

`quantity = quantity - sold`, `total = t.total + s.amount` in a MERGE and `views = page.views + EXCLUDED.views` in an
upsert apply the batch once per run: the second run applies it again, and nothing in the table shows that it did. An
update that multiplies a price or glues text to a column feeds on its own result in the same way.

`GREATEST(t.x, s.x)`, `COALESCE(t.x, s.x)` and trimming give the same again and are not reported; neither is an update
that marks in the same statement what it has applied.

**Instead**, keep the movements by their own key and compute the total from them:

    -- SQL
    UPDATE inventory SET quantity = l.quantity FROM (SELECT sku, SUM(units) AS quantity FROM ledger GROUP BY sku) l …
    -- or remember the batch beside the value
    … DO UPDATE SET total = t.total + EXCLUDED.total, batch = EXCLUDED.batch WHERE t.batch < EXCLUDED.batch
    # twice
    a step that reads all movements up to the window's end and writes the totals with Overwrite()
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from twice.audit.expressions import Expr
from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write, same_table
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, removed_before

SEVERITY = Severity.ERROR

_GROWS = frozenset({"+", "-", "*", "/", "%", "||"})
_GROWING_CALLS = frozenset(
    {
        "concat", "concat_ws", "array_append", "array_concat", "array_cat", "list_append",
        "list_concat", "array_prepend", "dateadd", "date_add", "date_sub", "datetime_add", "timestamp_add",
        "add_months", "object_insert",
    }
)  # fmt: skip
# What gives the same when it is applied to its own result.
_SETTLES = frozenset(
    {
        "greatest", "least", "max", "min", "trim", "ltrim", "rtrim", "upper", "lower", "initcap", "round", "floor",
        "ceil", "abs", "nullif", "array_distinct", "array_union", "regexp_replace", "replace",
    }
)  # fmt: skip
_DOCUMENT_UPDATES = frozenset(
    {"update_one", "update_many", "find_one_and_update", "UpdateOne", "UpdateMany", "update_item", "updateOne"}
)
_INCREMENT = re.compile(
    r"\$(inc|mul|push)\b|UpdateExpression\W+ADD\b|UpdateExpression.*=\s*(if_not_exists\()?#?\w+.*\+\s*:"
)
_COUNTER = re.compile(
    r"(attempt|retry|retries|run|execution|fail|failure|error|try|tries|hit|call)s?(_?(count|number|no|cnt|num))?$|^(row_?)?version(_no)?$"
    r"|^revision$|^lock_version$|sequence|seq_no|next_id|last_id|last_value",
    re.IGNORECASE,
)


def check(job: Job) -> Iterator[Finding]:
    """Look at the assignments of every UPDATE, MERGE and upsert."""
    for write in job.writes:
        if is_record(write.target) or write.target.temporary or removed_before(job, write) is not None:
            continue
        for column, place in (*relative(write), *_added_to_itself(write)):
            yield finding(
                __name__,
                place,
                f"a second run applies the same change to {column} of {write.target.name or 'the table'} again, "
                "because its new value is computed from its old one",
                instead="store the movements by their own key and set the total computed from all of them, or guard "
                "the update with the batch that was applied last",
                with_twice="a step that computes the total from all movements and writes it with Overwrite()",
            )
    yield from _increments(job)


def _added_to_itself(write: Write) -> Iterator[tuple[str, Place]]:
    """Yield columns of a query that are computed from the same column of the table that it replaces or merges into."""
    if write.query is None or write.mode not in {Mode.MERGE, Mode.UPSERT, Mode.OVERWRITE}:
        return
    for query in (write.query, *write.query.branches):
        mine = {source.alias or source.name for source in query.sources if same_table(source.name, write.target.name)}
        if mine and len(query.sources) == 1:
            mine.add("")
        for column in query.columns if mine else ():
            if _grows(column.expr, column.name, mine):
                yield column.name, column.expr.place
                return


def _increments(job: Job) -> Iterator[Finding]:
    """Look at document stores: $inc of MongoDB, ADD of DynamoDB."""
    for call in (call for call in job.calls if call.last in _DOCUMENT_UPDATES):
        text = "\n".join(job.line(number) for number in range(call.place.line, call.place.last_line + 1))
        if _INCREMENT.search(text):
            yield finding(
                __name__,
                call.place,
                f"a second run of this {call.last} adds the same amount to the stored value again",
                instead="set the value that was computed from all of its input ($set), or keep one document per window",
                with_twice="a step that computes the total from all movements and writes it with Overwrite()",
            )


@dataclass(frozen=True)
class _Change:
    """Assignments that happen together, and their condition."""

    assignments: tuple[tuple[str, Expr], ...]
    condition: Expr | None
    place: Place


def relative(write: Write) -> Iterator[tuple[str, Place]]:
    """Yield the columns whose new value is computed from their old one, one for each group of assignments."""
    merge = write.merge
    mine = {"", write.target.name, write.target.last, write.alias, merge.target_alias if merge is not None else ""}
    for change in _changes(write):
        if _applies_once(change):
            continue
        for column, value in change.assignments:
            name = column.rsplit(".", 1)[-1]
            if not _COUNTER.search(name) and _grows(value, name, mine) and not _asks_for_looks(change.condition, name):
                yield name, value.place if value.place.line > change.place.line else change.place
                break


def _changes(write: Write) -> Iterator[_Change]:
    if write.mode is Mode.UPDATE:
        yield _Change(write.assignments, write.predicate, write.place)
    if write.merge is not None and write.mode in {Mode.MERGE, Mode.UPSERT}:
        for when in write.merge.whens:
            if when.action == "update" and when.matched:
                yield _Change(when.assignments, when.condition, when.place)


def _grows(value: Expr, column: str, mine: set[str]) -> bool:
    """Return whether the old value of the column goes into an operation whose result differs from it."""
    if value.kind == "call" and value.name in _SETTLES:
        return False
    operation = (value.kind == "op" and value.name in _GROWS) or (value.kind == "call" and value.name in _GROWING_CALLS)
    if operation and any(_is_old_value(node, column, mine) for arg in value.args for node in arg.walk()):
        return True
    return any(_grows(arg, column, mine) for arg in value.args)


def _is_old_value(node: Expr, column: str, mine: set[str]) -> bool:
    if node.query is not None:  # the value was read into a variable first
        read = [_selected(one.expr) for one in node.query.columns]
        alone = len(read) == 1 and read[0].kind == "column" and read[0].name == column
        return alone and any(table in mine for table in node.query.tables())
    return node.kind == "column" and node.name == column and node.table in mine


def _selected(expr: Expr) -> Expr:
    """Return what is selected; T-SQL writes SELECT @old = quantity."""
    given = expr.kind == "op" and expr.name == "=" and len(expr.args) == 2 and expr.args[0].kind in {"param", "query"}
    return expr.args[1] if given else expr


def _applies_once(change: _Change) -> bool:
    """Return whether the condition asks for a column that the same statement sets, as `applied` or `last_batch`."""
    if change.condition is None:
        return False
    asked = set(change.condition.columns())
    return any(
        column.rsplit(".", 1)[-1] in asked and not (value.kind == "op" and value.name in _GROWS)
        for column, value in change.assignments
    )


def _asks_for_looks(condition: Expr | None, column: str) -> bool:
    """Return whether the condition asks what the column looks like, so that a changed one is left alone."""
    return condition is not None and any(
        node.kind == "op" and node.name in {"like", "is"} and column in node.columns() for node in condition.walk()
    )
