"""Print the model of a file: `python -m twice.audit.dump FILE [DIALECT]`, for authors of rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from twice.audit.expressions import Expr
from twice.audit.languages.reading import read_file
from twice.audit.model import Job, Write
from twice.audit.queries import Query

_DEEPEST = 8


def show(expr: Expr | None) -> str:
    """Write an expression in one line."""
    if expr is None:
        return "-"
    inside = ", ".join(show(arg) for arg in expr.args)
    marks = "".join(f"!{origin.kind}{'?' if origin.fallback else ''}@{origin.place}" for origin in expr.origins)
    over = ""
    if expr.partition_by or expr.order_by:
        orders = [show(one.expr) + (" desc" if one.descending else "") for one in expr.order_by]
        over = f" OVER (by {[show(one) for one in expr.partition_by]} order {orders})"
    known = {
        "column": f"{expr.table}.{expr.name}" if expr.table else expr.name,
        "literal": repr(expr.value),
        "param": f":{expr.name}",
    }
    return known.get(expr.kind, f"{expr.name or expr.kind}({inside})") + marks + over


def _marks(**marks: object) -> str:
    return "".join(f" {name}={value!r}" for name, value in marks.items() if value not in {None, False, "", ()})


def _query(query: Query, depth: int) -> Iterator[str]:
    pad = "    " * depth
    marks = _marks(
        streaming=query.streaming,
        distinct=query.distinct,
        distinct_on=query.distinct_on,
        grouped=query.grouped,
        limit=show(query.limit) if query.limit is not None else None,
        sampled=query.sample is not None,
    )
    yield f"{pad}query @{query.place} {query.language}{marks}"
    yield from (f"{pad}  column {column.name} = {show(column.expr)}" for column in query.columns)
    yield from (f"{pad}  where {show(filter_)}" for filter_ in query.filters)
    yield from (f"{pad}  group {show(group)}" for group in query.group_by)
    yield from (f"{pad}  order {show(order.expr)}" for order in query.order_by)
    for source in query.sources:
        names = f"{source.how} {source.kind} {source.name} as {source.alias}"
        yield f"{pad}  {names} on {show(source.on)} path {show(source.path)}"
        if source.query is not None and depth < _DEEPEST:
            yield from _query(source.query, depth + 1)
    for branch in query.branches:
        if depth < _DEEPEST:
            yield from _query(branch, depth + 1)


def _write(job: Job, write: Write) -> Iterator[str]:
    cleared = job.cleared_by(write)
    marks = _marks(
        temporary=write.target.temporary,
        scratch=write.target.is_scratch,
        transaction=write.transaction,
        task=write.task,
        function=write.function,
        key=write.key,
        cleared_by=cleared.mode.name if cleared else None,
        guarded_by=write.guarded_by,
        windowed=job.windowed(write),
        commit_between=write.commit_between,
        loop=write.loop,
        if_not_exists=write.if_not_exists,
        stream=write.stream,
    )
    target = f"{write.target.kind} {write.target.name!r}"
    yield f"WRITE {write.order} @{write.place} {write.mode.name} {target} via {write.via} {write.api}{marks}"
    if write.partition:
        yield f"  partition {[(name, show(value)) for name, value in write.partition]}"
    if write.predicate is not None:
        yield f"  predicate {show(write.predicate)}"
    yield from (f"  set {name} = {show(value)}" for name, value in write.assignments)
    if write.merge is not None:
        yield f"  merge on {show(write.merge.on)} {write.merge.target_alias}/{write.merge.source_alias}"
        for when in write.merge.whens:
            marks = _marks(matched=when.matched, by_source=when.by_source, all_columns=when.all_columns)
            values = [(name, show(value)) for name, value in when.assignments]
            yield f"    when {when.action}{marks} if {show(when.condition)} {values}"
    if write.query is not None:
        yield from _query(write.query, 1)


def describe(job: Job) -> str:
    """Write a job's model as text."""
    lines = [f"{job.path}: {job.language} {job.dialect} {job.orchestration}", f"dbt: {job.dbt}"]
    lines.extend(f"parameter {parameter}" for parameter in job.parameters)
    for write in job.writes:
        lines.extend(_write(job, write))
    for query in job.queries:
        lines.extend(_query(query, 0))
    for use in job.uses:
        marks = _marks(
            column=use.column,
            fallback=use.fallback,
            module_level=use.origin.module_level,
            detail=use.detail,
            write=use.write.order if use.write is not None else None,
        )
        lines += [f"USE {use.kind} {use.name} asked @{use.place} {use.context} used @{use.used_at}{marks}"]
    lines.extend(f"EFFECT {effect}" for effect in job.effects)
    lines.extend(f"PROBLEM {problem}" for problem in job.problems)
    return "\n".join(lines)


def neighbour_of(file: Path) -> dict[str, str]:
    """Return the Python files beside a file, by their names."""
    return {other.name: other.read_text(encoding="utf-8", errors="replace") for other in file.parent.glob("*.py")}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    beside = neighbour_of(target)
    found = read_file(str(target), target.read_text(), dialect="".join(sys.argv[2:3]), neighbour=beside.get)
    print(describe(found))  # noqa: T201 - that is what it is for
