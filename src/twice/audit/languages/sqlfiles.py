"""SQL files and dbt models."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import PurePath

from twice.audit.expressions import Expr
from twice.audit.languages.building import JobBuilder, Surroundings
from twice.audit.languages.dbtproject import is_complete, project_config
from twice.audit.languages.sql.dialects import DIALECTS, guess
from twice.audit.languages.sql.items import Read
from twice.audit.languages.sql.reading import SqlReading, read_sql
from twice.audit.languages.sql.sources import SqlText
from twice.audit.languages.templates import Filled, fill, texts_of
from twice.audit.model import DbtModel, Job, Merge, Mode, Parameter, Target, When, Write
from twice.audit.places import Place
from twice.audit.queries import Query

_DBT = re.compile(
    r"\{\{\s*-?\s*(ref|source|config|this)\b|\{%-?\s*(if\s+(not\s+)?is_incremental|snapshot|macro|materialization)|\{\{\s*dbt(_utils)?\."
    r"|\b(?i:from|join)\s+\{\{-?\s*var\b"
)
_DATE = re.compile(r"date|day|ds\b|dt\b|time|start|end|month|from|until|since|period", re.IGNORECASE)
# Commands of shells, which are not SQL: \\set ON_ERROR_STOP on, !echo of Hive and SnowSQL, :setvar of sqlcmd,
# .LOGON of BTEQ and .mode of sqlite, dfs -rm of Hive, the lone slash of SQL*Plus.
_PSQL_COPY = re.compile(r"^\\copy\b([^\n;]*);?$", re.MULTILINE | re.IGNORECASE)
_COMMANDS = re.compile(
    r"^[ \t]*(\\(?!copy\b)\w[^\n]*|![a-z]\w*\b[^\n]*|:(setvar|r|connect|on|out|error|quit|exit|list)\b[^\n]*"
    r"|\.[a-z]\w*\b[^\n]*|dfs\s+-[^\n]*|source\s+[\w./${}:-]+;?[ \t]*|/[ \t]*|@@?[\w./${}&-]+\.sql[^\n]*)$",
    re.MULTILINE | re.IGNORECASE,
)


def is_dbt(path: str, text: str) -> bool:
    """Return whether a SQL file is a dbt model, macro or snapshot."""
    return bool(_DBT.search(text))


def _nobody(_path: str) -> str | None:
    return None


def read_sql_file(path: str, text: str, dialect: str = "", neighbour: Callable[[str], str | None] = _nobody) -> Job:
    """Read a SQL file; with no dialect given, the words of the file decide."""
    if is_dbt(path, text):
        return read_dbt(path, text, dialect, neighbour)
    filled = fill(_COMMANDS.sub(lambda match: " " * len(match[0]), _PSQL_COPY.sub(r" copy\1;", text)))
    chosen = DIALECTS.get(dialect, dialect) if dialect else guess(text)
    job = Job(path, "sql", text, dialect=chosen)
    builder = JobBuilder(job)
    reading = read_sql(SqlText(filled.text, holes=filled.holes), chosen)
    builder.constraints = reading.constraints
    job.problems.extend(reading.problems)
    builder.add_items(reading.items, Surroundings(always_open=chosen == "oracle"))
    _parameters(job, filled)
    return builder.finish()


def read_dbt(path: str, text: str, dialect: str = "", neighbour: Callable[[str], str | None] = _nobody) -> Job:
    """Read a dbt model: its configuration decides how the result of its query is written."""
    name = PurePath(path).stem.lower()
    # With a schema before it, it is not a common table expression of the same name.
    filled = fill(text, this=f"this.{name}", dbt=True)
    chosen = DIALECTS.get(dialect, dialect) if dialect else guess(text, default="snowflake")
    job = Job(path, "dbt", text, dialect=chosen)
    builder = JobBuilder(job)
    _parameters(job, filled)
    if re.search(r"\{%-?\s*(macro|test|materialization)\b", text):
        job.queries.clear()
        reading = read_sql(SqlText(filled.text, holes=filled.holes), chosen)
        builder.add_items(reading.items)
        return builder.finish()
    outside = None if is_complete(filled.config) else project_config(path, neighbour)
    filled.config = {**(outside or {}), **filled.config}
    model = job.dbt = _model(filled)
    model.assumed = outside is None and not filled.config
    for hook in model.pre_hooks:
        builder.add_items(_hook(hook, name, model.place, chosen).items, Surroundings(origin="pre-hook", transaction=1))
    reading = read_sql(SqlText(filled.text, holes=filled.holes), chosen)
    job.problems.extend(reading.problems)
    queries = [item for item in reading.items if isinstance(item, Read)]
    others = [item for item in reading.items if not isinstance(item, Read)]
    builder.add_items(others)
    if len(queries) > 1:  # a SELECT under is_incremental() and one below it: either may be what runs
        builder.add_write(
            _write(
                name,
                model,
                Query(place=queries[0].query.place, branches=[item.query for item in queries], union_all=True),
            )
        )
    elif queries:
        _mark_incremental(queries[-1].query, filled)
        write = _write(name, model, queries[-1].query)
        write.predicate = _reached(filled, text, name, chosen) if write.incremental else None
        builder.add_write(write)
    elif not job.writes:
        builder.add_write(_write(name, model, Query(place=model.place)))
    for hook in model.post_hooks:
        builder.add_items(_hook(hook, name, model.place, chosen).items, Surroundings(origin="post-hook", transaction=1))
    return builder.finish()


def _reached(filled: Filled, text: str, name: str, dialect: str) -> Expr | None:
    """Return the condition on rows of the table, besides the key, that a merge of dbt looks at at all."""
    for option in ("incremental_predicates", "predicates"):
        given = list(texts_of(filled.config.get(option)))
        if given:
            found = text.find(option)
            place = Place(text.count("\n", 0, max(found, 0)) + 1)
            both = " AND ".join(f"({one})" for one in given)
            said = _hook(f"DELETE FROM this WHERE {both}", name, place, dialect)  # noqa: S608 - read, never run
            return next((item.predicate for item in said.items if isinstance(item, Write)), None)
    return None


def _hook(text: str, name: str, place: Place, dialect: str) -> SqlReading:
    filled = fill(text, this=name, dbt=True)
    lines = [place.line] * (filled.text.count("\n") + 1)
    return read_sql(SqlText(filled.text, lines, holes=filled.holes), dialect)


def _model(filled: Filled) -> DbtModel:
    config = filled.config
    snapshot = "snapshot" if "updated_at" in config and "strategy" in config else ""

    def one(key: str) -> str:
        return next(texts_of(config.get(key)), "").lower()

    materialized = one("materialized") or snapshot or ("incremental" if filled.is_incremental else "view")
    if filled.is_incremental and isinstance(config.get("materialized"), ast.Call):
        materialized = "incremental"  # a variable decides, and the model is written for both
    keys = tuple(
        part.strip().lower()
        for text in texts_of(config.get("unique_key"))
        for part in ([text] if "(" in text else text.split(","))
    )
    known = {"materialized", "incremental_strategy", "unique_key", "partition_by", "pre_hook", "post_hook"}
    return DbtModel(
        materialized=materialized,
        strategy=one("incremental_strategy") or (one("strategy") if snapshot else ""),
        unique_key=keys,
        partition_by=tuple(text.lower() for text in texts_of(config.get("partition_by"))),
        partition_grain=_grain(config.get("partition_by")),
        place=Place(filled.config_line or 1),
        has_incremental_block=filled.is_incremental,
        unique_key_text=ast.unparse(config["unique_key"]) if "unique_key" in config else "",
        options={key: ast.unparse(value) for key, value in config.items() if key not in known},
        pre_hooks=tuple(_hooks(config.get("pre_hook"))),
        post_hooks=tuple(_hooks(config.get("post_hook"))),
    )


def _hooks(node: ast.expr | None) -> list[str]:
    if isinstance(node, ast.Dict):
        return [
            text
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "sql"
            for text in texts_of(value)
        ]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in _hooks(item)]
    return list(texts_of(node))


def _grain(node: ast.expr | None) -> str:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "granularity":
                return next(texts_of(value), "")
    return ""


def _write(name: str, model: DbtModel, query: Query) -> Write:
    target = Target(name, "view" if model.materialized in {"view", "ephemeral"} else "table")
    write = Write(target, Mode.OVERWRITE, model.place, query=query, via="dbt", api=model.materialized, origin="model")
    write.key = model.unique_key
    write.partition = tuple((column, None) for column in model.partition_by)
    write.transaction = 1
    if model.materialized in {"view", "ephemeral"}:
        write.mode = Mode.CREATE
        write.or_replace = True
    elif model.materialized == "snapshot":
        write.mode = Mode.MERGE
    elif model.materialized == "incremental":
        write.incremental = True
        write.mode = _incremental_mode(model)
        if write.mode is Mode.MERGE:
            pairs = [
                Expr(
                    "op",
                    "=",
                    (
                        Expr("column", key, table="this", place=model.place),
                        Expr("column", key, table="new", place=model.place),
                    ),
                    model.place,
                )
                for key in model.unique_key
            ]
            on = Expr("op", "and", tuple(pairs), model.place) if len(pairs) > 1 else pairs[0] if pairs else None
            whens = (
                When(True, "update", all_columns=True, place=model.place),
                When(False, "insert", all_columns=True, place=model.place),
            )
            write.merge = Merge(on, whens, "this", "new")
    return write


def _incremental_mode(model: DbtModel) -> Mode:
    if model.strategy in {"insert_overwrite", "replace_where", "microbatch"}:
        return Mode.OVERWRITE_PARTITIONS
    if model.strategy == "append" or not model.unique_key:
        return Mode.APPEND
    return Mode.MERGE


def _mark_incremental(query: Query, filled: Filled) -> None:
    """Note the filters that only apply to incremental runs."""
    for one in query.walk():
        one.incremental_only = frozenset(
            id(item)
            for item in one.filters
            if any(start <= item.place.line <= end for start, end in filled.incremental_lines)
        )


def _parameters(job: Job, filled: Filled) -> None:
    for name, kind in filled.variables.items():
        logical = kind == "logical date"
        place = Place(1)
        job.parameters.append(
            Parameter(
                name,
                "logical date" if logical else "dbt var" if job.language == "dbt" else "sql",
                place,
                is_date=logical or bool(_DATE.search(name)),
                expression=f"'{{{{ {name} }}}}'" if logical else f"{{{{ var('{name}') }}}}",
            )
        )
    names = {hole.name for hole in filled.holes.values() if hole.kind == "param"} - set(filled.variables)
    job.parameters.extend(
        Parameter(name, "sql", Place(1), is_date=bool(_DATE.search(name)), expression="${" + name + "}")
        for name in sorted(names)
    )
    if filled.logical_dates:
        job.orchestration.uses_logical_date = True
