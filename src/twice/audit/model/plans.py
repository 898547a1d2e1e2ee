"""What is said around a job: its orchestrator, its parameters, its dbt configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twice.audit.expressions import Expr
from twice.audit.places import NOWHERE, Place


@dataclass(frozen=True)
class Task:
    """A task of an orchestrator."""

    name: str
    operator: str  # PythonOperator, @task, SparkSubmitOperator, @asset, @flow …
    place: Place
    function: str = ""
    upstream: frozenset[str] = frozenset()
    retries: int | None = None
    retries_place: Place | None = None
    templated: bool = False  # uses {{ ds }} or another logical date


@dataclass
class Orchestration:
    """What an orchestrator is asked to do: Airflow, Dagster, Prefect or none."""

    system: Literal["", "airflow", "dagster", "prefect"] = ""
    schedule: str = ""  # as written: "@daily", "0 * * * *"
    every: int | None = None  # seconds, as far as it is clear
    schedule_place: Place | None = None
    retries: int | None = None  # of the DAG or flow (default_args)
    retries_place: Place | None = None
    catchup: bool | None = None
    catchup_place: Place | None = None
    start_date: Expr | None = None
    start_date_place: Place | None = None
    tasks: list[Task] = field(default_factory=list)
    uses_logical_date: bool = False  # ds, execution_date, data_interval_start, {{ ds }}, partition_key …


@dataclass(frozen=True)
class Parameter:
    """A date or value that the job is given from outside, so that a rerun can ask for the same one."""

    name: str
    kind: Literal["argument", "logical date", "dbt var", "widget", "environment", "function", "sql"]
    place: Place
    is_date: bool = False
    expression: str = ""  # how to write it in this file


@dataclass
class DbtModel:
    """A dbt model's configuration."""

    materialized: str = "view"
    strategy: str = ""  # incremental_strategy
    unique_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    partition_grain: str = ""
    place: Place = NOWHERE
    has_incremental_block: bool = False
    unique_key_text: str = ""
    options: dict[str, str] = field(default_factory=dict)
    pre_hooks: tuple[str, ...] = ()
    post_hooks: tuple[str, ...] = ()
    assumed: bool = False  # neither the file nor a project says how it is materialized
