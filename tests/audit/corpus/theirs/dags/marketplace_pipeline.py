"""Marketplace pipeline: extract from the API, stage in S3, load to Snowflake, publish."""
from __future__ import annotations

import gzip
import json
import logging
from datetime import timedelta
from typing import Any

import pendulum
import requests
from airflow import DAG
from airflow.exceptions import AirflowSkipException
from airflow.operators.python import PythonOperator, ShortCircuitOperator
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.snowflake.hooks.snowflake import SnowflakeHook
from airflow.utils.task_group import TaskGroup

log = logging.getLogger(__name__)

BUCKET = "marketplace-stage"
ENTITIES: dict[str, dict[str, Any]] = {
    "orders": {"path": "/v3/orders", "table": "RAW.MP_ORDERS", "key": "ORDER_ID"},
    "returns": {"path": "/v3/returns", "table": "RAW.MP_RETURNS", "key": "RETURN_ID"},
    "payouts": {"path": "/v3/payouts", "table": "RAW.MP_PAYOUTS", "key": "PAYOUT_ID"},
}

default_args = {
    "owner": "marketplace",
    "retries": 3,
    "retry_delay": timedelta(minutes=2),
    "retry_exponential_backoff": True,
}


def _get(path: str, params: dict[str, Any]) -> dict[str, Any]:
    r = requests.get("https://mp.example" + path, params=params, timeout=60)
    r.raise_for_status()
    return r.json()


def extract(entity: str, data_interval_start, data_interval_end, **_):
    spec = ENTITIES[entity]
    docs, cursor = [], None
    while True:
        page = _get(
            spec["path"],
            {"from": data_interval_start.isoformat(), "to": data_interval_end.isoformat(), "cursor": cursor},
        )
        docs.extend(page["items"])
        cursor = page.get("next")
        if not cursor:
            break
    if not docs:
        raise AirflowSkipException(f"no {entity} in the interval")
    body = gzip.compress("\n".join(json.dumps(d, sort_keys=True) for d in docs).encode())
    key = f"{entity}/{data_interval_start:%Y/%m/%d}/data.json.gz"
    S3Hook("aws").load_bytes(body, key=key, bucket_name=BUCKET, replace=True)
    log.info("%s: %d documents in %s", entity, len(docs), key)
    return key


def load(entity: str, ds: str, ti, **_):
    spec = ENTITIES[entity]
    key = ti.xcom_pull(task_ids=f"{entity}.extract")
    hook = SnowflakeHook("snowflake")
    hook.run(
        [
            "BEGIN",
            f"DELETE FROM {spec['table']} WHERE LOAD_DAY = '{ds}'",
            f"INSERT INTO {spec['table']} (LOAD_DAY, {spec['key']}, DOC) "
            f"SELECT '{ds}', $1:id::string, $1 FROM @RAW.MP_STAGE/{key} (FILE_FORMAT => RAW.JSON_GZ)",
            "COMMIT",
        ],
        autocommit=False,
    )


def has_rows(ds: str, **_):
    n = SnowflakeHook("snowflake").get_first(f"SELECT COUNT(*) FROM RAW.MP_ORDERS WHERE LOAD_DAY = '{ds}'")[0]
    return n > 0


def publish(ds: str, **_):
    requests.put(
        f"https://bi.example/api/datasets/marketplace/{ds}",
        json={"state": "ready", "day": ds},
        headers={"Idempotency-Key": f"marketplace-{ds}"},
        timeout=10,
    ).raise_for_status()


with DAG(
    "marketplace_pipeline",
    default_args=default_args,
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    schedule="@daily",
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
) as dag:
    gate = ShortCircuitOperator(task_id="has_rows", python_callable=has_rows)
    done = PythonOperator(task_id="publish", python_callable=publish)
    for name in ENTITIES:
        with TaskGroup(group_id=name) as group:
            e = PythonOperator(task_id="extract", python_callable=extract, op_kwargs={"entity": name})
            l = PythonOperator(task_id="load", python_callable=load, op_kwargs={"entity": name})
            e >> l
        group >> gate
    gate >> done
