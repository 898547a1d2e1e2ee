"""Airflow, Dagster and Prefect: DAGs, tasks and their order, logical dates, state."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from twice.audit.languages.python.airflow_operators import operator
from twice.audit.languages.python.schedules import delta, keyword_place, note_schedule, place_of
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
from twice.audit.model import Task

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_TASK_DECORATOR = re.compile(r"^(\w+\.)?(task|op|asset|flow|multi_asset|dag|job|sensor|schedule|graph)(\.\w+)*\b")


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
        return operator(interp, last, keywords, node)
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
        note_schedule(interp, keywords.get("cron_schedule"), node)
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
        return delta(arguments, keywords, interp, node)
    if last in {"datetime", "date"} and dotted in {"datetime.datetime", "datetime.date", "pendulum.datetime"}:
        return Value(
            origins=frozenset(one for value in (*arguments, *keywords.values()) for one in origins_of(value)),
            name=interp.source(node)[:60],
        )
    if dotted in {"click.option", "typer.Option", "click.argument"}:
        return Value(name=last)
    return None


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


def _dag(interp: Interpreter, arguments: list[Value], keywords: dict[str, Value], node: ast.Call) -> None:
    found = interp.job.orchestration
    found.system = "airflow"
    defaults = keywords.get("default_args")
    given: dict[str, Value] = {}
    for one in alternatives(defaults):
        if isinstance(one, Entries):
            given = dict(one.items)
    of_tasks = given.get("start_date")  # tasks start when default_args say so, whatever the DAG says
    given.update({key: value for key, value in keywords.items() if key != "default_args"})
    note_schedule(
        interp,
        keywords.get("schedule_interval") or keywords.get("schedule") or keywords.get("timetable"),
        keyword_place(interp, node, "schedule_interval", "schedule", "timetable"),
    )
    retries = constant(given.get("retries"))
    if isinstance(retries, int) and not isinstance(retries, bool):
        found.retries, found.retries_place = retries, place_of(interp, node, "retries")
    catchup = constant(keywords.get("catchup"))
    if isinstance(catchup, bool):
        found.catchup, found.catchup_place = catchup, place_of(interp, node, "catchup")
    start = given.get("start_date")
    moving = of_tasks is not None and any(origin.kind == "clock" for origin in origins_of(of_tasks))
    if start is not None:
        start = of_tasks if moving and of_tasks is not None else start
        place = place_of(interp, ast.Call(node.func, [], []) if moving else node, "start_date")
        found.start_date, found.start_date_place = as_expr(interp, start, node), place
        interp.use(start, "start_date", node)


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
                place = place_of(interp, call, "retries") if call is not None and own is not None else None
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
                note_schedule(interp, keywords["cron_schedule"], decorator)
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
        return operator(interp, last, keywords, node)
    if last in {"expand", "partial", "override"} and keywords:
        return None
    return None
