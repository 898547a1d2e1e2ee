"""Airflow, Dagster, Prefect and argparse: schedules, retries, tasks, logical dates, arguments."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from twice.audit.languages.python import databases, effects
from twice.audit.languages.python.scopes import State
from twice.audit.languages.python.sqltexts import as_expr
from twice.audit.languages.python.values import (
    Const,
    Entries,
    Frame,
    Function,
    Instance,
    Items,
    Text,
    Value,
    alternatives,
    as_fallback,
    constant,
    merged,
    origins_of,
    plain,
    shown,
)
from twice.audit.model import Mode, Task, Write
from twice.audit.places import Place

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_TASK_DECORATOR = re.compile(r"^(\w+\.)?(task|op|asset|flow|multi_asset|dag|job|sensor|schedule|graph)(\.\w+)*\b")
_SCHEDULES = {
    "@once": None,
    "@hourly": 3600,
    "@daily": 86400,
    "@midnight": 86400,
    "@weekly": 604800,
    "@monthly": 2592000,
    "@yearly": 31536000,
    "@quarterly": 7776000,
}


def every(schedule: str) -> int | None:
    """Return the seconds between two runs of a cron text or preset, as far as it is clear.

    >>> every("@daily"), every("0 * * * *"), every("*/15 * * * *"), every("0 3 * * *"), every("0 3 * * 1")
    (86400, 3600, 900, 86400, 604800)
    """
    text = schedule.strip().lower()
    if text in _SCHEDULES:
        return _SCHEDULES[text]
    fields = text.split()
    if len(fields) != 5:
        return None
    minute, hour, day, _month, weekday = fields
    if hour == "*":
        step = re.fullmatch(r"\*/(\d+)", minute)
        return int(step[1]) * 60 if step and int(step[1]) else 60 if minute == "*" else 3600
    step = re.fullmatch(r"\*/(\d+)", hour)
    if step and int(step[1]):
        return int(step[1]) * 3600
    if day == "*" and weekday in {"*", "?"}:
        return 86400 // max(1, len(hour.split(",")))
    if day == "*":
        return 604800 if weekday.isalnum() else 86400
    return 2592000


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """Calls of orchestrators, of argparse, and of what hands values in from outside."""
    last = dotted.rpartition(".")[2]
    first = arguments[0] if arguments else None
    if last == "DAG":
        _dag(interp, arguments, keywords, node)
        return Instance(kind="airflow.DAG", attributes=dict(keywords), name="dag")
    if (re.search(r"(Operator|Sensor|Transfer)$", last) and "task_id" in keywords) or last.endswith("Operator"):
        return _operator(interp, last, keywords, node)
    if last == "ArgumentParser" or dotted.endswith("argparse.ArgumentParser"):
        return Instance(kind="parser", name="parser")
    if last == "getResolvedOptions":
        found = Instance(kind="arguments", name="args")
        if len(arguments) > 1 and isinstance(arguments[1], Items):
            for item in arguments[1].items:
                name = shown(item)
                found.attributes[name] = interp.parameter(name, node, "argument", expression=f'args["{name}"]')
        return found
    if (
        dotted in {"dbutils.widgets.get", "mssparkutils.notebook.getArgument", "dbutils.widgets.getArgument"}
        and first is not None
    ):
        return interp.parameter(shown(first), node, "widget", expression=interp.source(node))
    if (
        dotted
        in {
            "airflow.models.Variable.get",
            "Variable.get",
            "airflow.sdk.Variable.get",
            "airflow.models.variable.Variable.get",
        }
        and first is not None
    ):
        return _variable(interp, shown(first), arguments, keywords, node)
    if dotted.endswith(("Variable.set", "Variable.update")):
        for one in (*arguments[1:], *keywords.values()):
            interp.use(one, "state", node, detail=shown(first))
        return Const()
    if dotted.endswith("get_current_context"):
        return Entries(name="context")
    if dotted in {"airflow.utils.helpers.chain", "airflow.models.baseoperator.chain", "chain", "airflow.sdk.chain"}:
        for one, other in pairwise(arguments):
            follows(interp, one, other, backwards=False)
        return Const()
    if last == "RetryPolicy" and interp.job.orchestration.system in {"", "dagster"}:
        return Entries(items={"retries": keywords.get("max_retries") or first or Value()}, name="RetryPolicy")
    if last in {"ScheduleDefinition", "build_schedule_from_partitioned_job"}:
        _schedule(interp, keywords.get("cron_schedule"), node)
        interp.job.orchestration.system = "dagster"
        return Value(name=last)
    if last in {
        "DailyPartitionsDefinition",
        "HourlyPartitionsDefinition",
        "WeeklyPartitionsDefinition",
        "MonthlyPartitionsDefinition",
    }:
        interp.job.orchestration.system = "dagster"
        return Value(name=last)
    if last in {"timedelta", "relativedelta", "Duration"}:
        return _delta(arguments, keywords, interp, node)
    if last in {"datetime", "date"} and dotted in {"datetime.datetime", "datetime.date", "pendulum.datetime"}:
        return Value(
            origins=frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value)),
            name=interp.source(node)[:60],
        )
    if dotted in {"click.option", "typer.Option", "click.argument"}:
        return Value(name=last)
    return None


def _delta(arguments: list[Value], keywords: dict[str, Value], interp: Interpreter, node: ast.AST) -> Value:
    found = {name: constant(value) for name, value in keywords.items()}
    if arguments and isinstance(constant(arguments[0]), int):
        found["days"] = constant(arguments[0])
    numbers = {
        name: value
        for name, value in found.items()
        if isinstance(value, int) and name in {"days", "hours", "minutes", "seconds", "weeks"}
    }
    origins = frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value))
    if numbers and len(numbers) == len(keywords) + len(arguments):
        try:
            seconds = int(timedelta(**numbers).total_seconds())
        except OverflowError:
            return Value(name=interp.source(node)[:60])
        return Instance(kind="timedelta", attributes={"seconds": Const(value=seconds)}, name=interp.source(node)[:60])
    return Value(origins=origins, name=interp.source(node)[:60])


def _variable(
    interp: Interpreter, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    default = keywords.get("default_var") or keywords.get("default") or (arguments[1] if len(arguments) > 1 else None)
    made = Value(origins=interp.origin("state", f"Variable {name}", node), name=name)
    if default is not None and any(one.kind == "clock" for one in origins_of(default)):
        return merged(made, as_fallback(default))
    if not re.search(
        r"last|date|watermark|time|run|since|cursor|offset|state|max|hwm|checkpoint|_at$|from|until|start|end",
        name,
        re.IGNORECASE,
    ):
        return Value(name=name)
    return made


def _schedule(interp: Interpreter, value: Value | None, node: ast.AST) -> None:
    if value is None:
        return
    found = interp.job.orchestration
    for one in alternatives(value):
        if isinstance(one, Instance) and one.kind == "timedelta":
            seconds = constant(one.attributes["seconds"])
            found.schedule, found.every = one.name, seconds if isinstance(seconds, int) else None
        elif isinstance(one, Text):
            found.schedule, found.every = one.shown, every(one.shown)
        elif isinstance(one, Const) and one.value is None:
            found.schedule = "None"
        else:
            found.schedule = one.name
        found.schedule_place = interp.place(node)
        return


def _keyword_place(interp: Interpreter, node: ast.Call, *wanted: str) -> ast.AST:
    for keyword in node.keywords:
        if keyword.arg in wanted:
            return keyword.value
    for keyword in node.keywords:
        if isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in wanted:
                    return value
    return node


def _dag(interp: Interpreter, arguments: list[Value], keywords: dict[str, Value], node: ast.Call) -> None:
    found = interp.job.orchestration
    found.system = "airflow"
    defaults = keywords.get("default_args")
    given: dict[str, Value] = {}
    for one in alternatives(defaults):
        if isinstance(one, Entries):
            given = dict(one.items)
    given.update({key: value for key, value in keywords.items() if key != "default_args"})
    _schedule(
        interp,
        keywords.get("schedule_interval") or keywords.get("schedule") or keywords.get("timetable"),
        _keyword_place(interp, node, "schedule_interval", "schedule", "timetable"),
    )
    retries = constant(given.get("retries"))
    if isinstance(retries, int) and not isinstance(retries, bool):
        found.retries, found.retries_place = retries, _place_of(interp, node, "retries")
    catchup = constant(keywords.get("catchup"))
    if isinstance(catchup, bool):
        found.catchup, found.catchup_place = catchup, _place_of(interp, node, "catchup")
    start = given.get("start_date")
    if start is not None:
        place = _place_of(interp, node, "start_date")
        found.start_date, found.start_date_place = as_expr(interp, start, node), place
        interp.use(start, "start_date", node)


def _place_of(interp: Interpreter, node: ast.Call, name: str) -> Place:
    """Find the line that sets a value: a keyword, or an entry of a dictionary anywhere in the file."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return Place(keyword.value.lineno, keyword.value.col_offset + 1)
    return interp.settings.get(name) or interp.place(node)


def _operator(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> Value:
    task = shown(keywords.get("task_id")) or name
    found = interp.job.orchestration
    if not found.system:
        found.system = "airflow"
    retries = constant(keywords.get("retries"))
    own = retries if isinstance(retries, int) and not isinstance(retries, bool) else None
    function_ = next((one for one in alternatives(keywords.get("python_callable")) if isinstance(one, Function)), None)
    source = interp.source(node) if len(keywords) < 30 else ""
    templated = bool(
        re.search(
            r"\{\{\s*(ds|ts|execution_date|data_interval|logical_date|next_ds|prev_ds|macros|yesterday_ds|tomorrow_ds|dag_run)",
            _all_text(keywords),
        )
    )
    if templated:
        found.uses_logical_date = True
    if not interp.quiet:
        place = _place_of(interp, node, "retries") if own is not None else None
        found.tasks.append(
            Task(
                task,
                name,
                interp.place(node),
                function_.name if function_ else "",
                retries=own,
                retries_place=place,
                templated=templated,
            )
        )
    instance = Instance(
        kind=name, attributes={"task_id": Text(pieces=[]), "output": Value()}, name=task, place=interp.place(node)
    )
    effects.operator(interp, name, keywords, node, task)
    for key, value in keywords.items():
        if key not in {"start_date", "end_date", "sql", "hql", "query", "default_args", "dag"}:
            interp.use(
                frozenset(one for one in origins_of(value) if one.kind == "clock"),
                "argument",
                node,
                detail=f"{name} {key}",
            )
    _operator_writes(interp, name, keywords, node, task, own)
    if function_ is not None:
        state = State(task=task, retries=own)
        bound = keywords.get("op_kwargs")
        if isinstance(bound, Entries) and bound.items:
            before, interp.state = interp.state, state
            interp.call_function(function_, [], dict(bound.items), node)
            interp.state = before
        else:
            interp.pending.append((function_, state))
    _ = source
    return instance


def _all_text(keywords: dict[str, Value]) -> str:
    found: list[str] = []
    for value in keywords.values():
        for one in alternatives(value):
            if isinstance(one, Text):
                found.append(one.shown)
            elif isinstance(one, (Items, Entries)):
                items = one.items if isinstance(one, Items) else list(one.items.values())
                found.extend(shown(item) for item in items)
    return "\n".join(found)


def _operator_writes(
    interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call, task: str, retries: int | None
) -> None:
    around = interp.around(task=task, retries=retries)
    autocommits = (
        bool(re.search(r"Snowflake|BigQuery|Hive|Athena|Spark|Databricks|Trino|Presto|ClickHouse", name))
        or constant(keywords.get("autocommit")) is True
    )
    around = replace(around, one_transaction=not autocommits, origin="task")
    before, interp.state.task = interp.state.task, task
    try:
        sql = keywords.get("sql") or keywords.get("hql") or keywords.get("query") or keywords.get("statement")
        if sql is not None:
            databases.run(
                interp,
                sql,
                node,
                hint=name,
                around=around,
                spark="Spark" in name or "Databricks" in name,
                given=keywords.get("parameters"),
            )
        _transfers(interp, name, keywords, node)
    finally:
        interp.state.task = before


def _transfers(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> None:
    from twice.audit.languages.python.writers import emit, target_of

    def text(key: str) -> str:
        return (shown(keywords.get(key)) or "").lower()

    if name.endswith(("ToRedshiftOperator", "ToRedshiftTransfer")):
        method = text("method") or "append"
        mode = {"replace": Mode.OVERWRITE, "upsert": Mode.UPSERT}.get(method, Mode.APPEND)
        schema = text("schema")
        target = target_of(interp, keywords.get("table"), node)
        target = replace(target, name=f"{schema}.{target.name}" if schema else target.name)
        emit(
            interp,
            Write(target, mode, interp.place(node), via="operator", api=name, explicit_mode="method" in keywords),
        )
    elif re.search(
        r"(CopyFromExternalStageToSnowflake|S3ToSnowflake|GCSToSnowflake|AzureBlobStorageToSnowflake)", name
    ):
        emit(
            interp,
            Write(
                target_of(interp, keywords.get("table"), node),
                Mode.APPEND,
                interp.place(node),
                via="operator",
                api=name,
                explicit_mode=False,
            ),
        )
    elif "ToBigQuery" in name or (
        name.startswith("BigQuery") and ("destination_dataset_table" in keywords or "configuration" in keywords)
    ):
        _bigquery(interp, name, keywords, node)
    elif re.search(r"(S3To(Sql|MySql)|MySqlToHive|\w+ToPostgres|\w+ToMySql|GenericTransfer|S3ToHive|S3ToMySql)", name):
        preoperator = shown(keywords.get("preoperator") or keywords.get("mysql_preoperator")).lower()
        target = target_of(
            interp,
            keywords.get("destination_table")
            or keywords.get("table")
            or keywords.get("mysql_table")
            or keywords.get("hive_table"),
            node,
        )
        if any(word in preoperator for word in ("delete", "truncate", "drop")):
            emit(interp, Write(target, Mode.DELETE, interp.place(node), via="operator", api="preoperator"))
        emit(interp, Write(target, Mode.APPEND, interp.place(node), via="operator", api=name, explicit_mode=False))


def _bigquery(interp: Interpreter, name: str, keywords: dict[str, Value], node: ast.Call) -> None:
    from twice.audit.languages.python.writers import emit, target_of

    disposition = shown(keywords.get("write_disposition")).upper()
    where = keywords.get("destination_project_dataset_table") or keywords.get("destination_dataset_table")
    query: Value | None = None
    configuration = next((one for one in alternatives(keywords.get("configuration")) if isinstance(one, Entries)), None)
    if configuration is not None:
        inner = next(
            (
                one
                for key in ("query", "load")
                for one in alternatives(configuration.items.get(key))
                if isinstance(one, Entries)
            ),
            None,
        )
        if inner is None:
            return
        disposition = shown(inner.items.get("writeDisposition")).upper()
        query = inner.items.get("query")
        table = inner.items.get("destinationTable")
        if isinstance(table, Entries):
            where = table.items.get("tableId")
        if query is not None and where is None:
            databases.run(interp, query, node, hint="bigquery")
            return
    mode = {"WRITE_APPEND": Mode.APPEND, "WRITE_TRUNCATE": Mode.OVERWRITE}.get(
        disposition, Mode.CREATE if not disposition and "ToBigQuery" in name else Mode.APPEND
    )
    if where is None:
        return
    target = target_of(interp, where, node)
    if "$" in target.name and mode is Mode.OVERWRITE:
        mode = Mode.OVERWRITE_PARTITIONS
    write = Write(target, mode, interp.place(node), via="operator", api=name, explicit_mode=bool(disposition))
    sql = keywords.get("sql") or query
    for one in alternatives(sql):
        if isinstance(one, Text):
            write.query = databases.query_of(interp, one, node)
    emit(interp, write)


def decorate(interp: Interpreter, function_: Function, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Look at what a decorator makes of a function: a task, a DAG, a flow, a command."""
    found = interp.job.orchestration
    for decorator in node.decorator_list:
        source = interp.source(decorator)
        call = decorator if isinstance(decorator, ast.Call) else None
        keywords = (
            {keyword.arg: interp.eval(keyword.value) for keyword in call.keywords if keyword.arg}
            if call is not None
            else {}
        )
        if re.match(r"(\w+\.)?dag\b", source) and any("airflow" in module for module in interp.job.imports):
            if call is not None:
                _dag(interp, [], keywords, call)
            found.system = "airflow"
            interp.dag_functions.add(node.name)
        elif _TASK_DECORATOR.match(source):
            modules = " ".join(interp.job.imports)
            found.system = found.system or (
                "airflow"
                if "airflow" in modules
                else "dagster"
                if "dagster" in modules
                else "prefect"
                if "prefect" in modules
                else ""
            )
            if not found.system:
                continue
            retries = constant(keywords.get("retries"))
            policy = keywords.get("retry_policy")
            if isinstance(policy, Entries):
                retries = constant(policy.items.get("retries"))
            own = retries if isinstance(retries, int) and not isinstance(retries, bool) else None
            name = shown(keywords.get("task_id") or keywords.get("name")) or node.name
            function_.task = name
            if not interp.quiet:
                place = _place_of(interp, call, "retries") if call is not None and own is not None else None
                found.tasks.append(
                    Task(
                        name,
                        f"@{source.split('(')[0]}",
                        interp.place(node),
                        node.name,
                        retries=own,
                        retries_place=place,
                    )
                )
            if found.system == "prefect" and source.startswith(("flow", "prefect.flow")) and own is not None:
                found.retries = own
                found.retries_place = interp.place(decorator)
            if "cron_schedule" in keywords:
                _schedule(interp, keywords["cron_schedule"], decorator)
        elif (
            source.startswith(("click.option", "click.argument", "app.command", "option("))
            and call is not None
            and call.args
        ):
            label = plain(interp.eval(call.args[0])) or ""
            name = label.lstrip("-").replace("-", "_")
            if name:
                default = keywords.get("default")
                fallback = origins_of(as_fallback(default)) if default is not None else frozenset()
                if any(one.kind == "clock" for one in fallback):
                    interp.scope.names[f"__option_{name}"] = Value(origins=fallback)
                interp.parameter(name, decorator, "argument")


def call_task(
    interp: Interpreter, function_: Function, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    """Call a decorated task: run it as its own task."""
    task = next((one for one in interp.job.orchestration.tasks if one.function == function_.name), None)
    before_task, before_retries = interp.state.task, interp.state.retries
    if task is not None:
        interp.state.task = task.name
        interp.state.retries = task.retries
    try:
        result = interp.call_function(function_, arguments, keywords, node)
    finally:
        interp.state.task, interp.state.retries = before_task, before_retries
    if interp.job.orchestration.system == "airflow" and not isinstance(result, (Frame, Text)):
        return Instance(
            kind="task",
            attributes={"value": result},
            name=task.name if task else function_.name,
            origins=origins_of(result),
        )
    return result


def follows(interp: Interpreter, one: Value, other: Value, *, backwards: bool) -> Value:
    """`one >> other`: other runs after one."""
    first, second = (other, one) if backwards else (one, other)
    upstream = _task_names(first)
    downstream = _task_names(second)
    tasks = interp.job.orchestration.tasks
    for index, task in enumerate(tasks):
        if task.name in downstream:
            tasks[index] = replace(task, upstream=task.upstream | frozenset(upstream))
    return other


def _task_names(value: Value) -> set[str]:
    found: set[str] = set()
    for one in alternatives(value):
        if isinstance(one, Instance):
            found.add(one.name)
        elif isinstance(one, Items):
            for item in one.items:
                found |= _task_names(item)
    return found


def parser_method(
    interp: Interpreter, parser: Instance, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    """argparse: add_argument and parse_args."""
    if name == "add_argument":
        labels = [plain(one) or "" for one in arguments]
        label = next((one for one in labels if one.startswith("--")), labels[0] if labels else "")
        dest = plain(keywords.get("dest")) or label.lstrip("-").replace("-", "_")
        default = keywords.get("default")
        fallback = origins_of(as_fallback(default)) if default is not None else frozenset()
        value = interp.parameter(
            dest,
            node,
            "argument",
            expression=f"args.{dest}",
            fallback=frozenset(one for one in fallback if one.kind != "parameter"),
        )
        if isinstance(default, (Text, Const)) and constant(default) is not None:
            from twice.audit.languages.python.values import Choice

            value = Choice(options=[default], name=dest, origins=value.origins)
        parser.attributes[dest] = value
        return Value(name=dest)
    if name in {"parse_args", "parse_known_args"}:
        found = Instance(kind="arguments", attributes={**parser.attributes}, name="args")
        return found if name == "parse_args" else Items(items=[found, Value()], kind="tuple")
    if name in {"add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"}:
        return parser
    return Value()


def unknown(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """XCom and other state of an orchestrator."""
    if last == "xcom_pull":
        return Value(origins=interp.origin("state", "xcom_pull", node), name="xcom")
    if last in {"xcom_push", "update_cursor", "set_cursor"}:
        for one in (*arguments, *keywords.values()):
            interp.use(one, "state", node, detail=last)
        return Const()
    if full.endswith("DAG") or last == "DAG":
        _dag(interp, arguments, keywords, node)
        return Instance(kind="airflow.DAG", name="dag")
    if re.search(r"(Operator|Sensor)$", last) and "task_id" in keywords:
        return _operator(interp, last, keywords, node)
    if last in {"expand", "partial", "override"} and keywords:
        return None
    return None
