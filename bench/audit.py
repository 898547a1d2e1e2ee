"""How fast `twice audit` reads a fleet: 1,000 files of 200 lines (PySpark, SQL, dbt, Airflow), cold and with its cache.

The files are generated from a seed, all different, and unsafe in the usual ways. They are as dense as labelled real
jobs (tests/audit/corpus, scaled to 200 lines) or denser: as much code, as many statements, calls and words of SQL.

`cold_s` is the whole command with an empty cache (the promise: less than 20 s on two cores), `warm_s` the same command
again (less than 2 s). `peak_mb` is the largest process, and `peak_mb_half` the same for half of the files: memory must
not grow with the fleet. There is no peer to compare with: what other linters find is not this.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SPARK_HEAD = """import argparse
import logging
from datetime import datetime

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

logger = logging.getLogger(__name__)
LAKE = "s3://lake/core"
REGIONS = ["north", "south", "east", "west"]


"""
SPARK_LOAD = '''def load_{n}(spark, day):
    """Load {table} for a day.

    Reads what the source system delivered, cleans the amounts,
    keeps one row per order and writes the totals by region,
    from which the mart is filled.
    """
    # The source sends an order again whenever its status changes.
    raw = spark.table("raw.{table}")
    today = raw.where(F.col("event_date") == F.lit(day))

    newest = Window.partitionBy("order_id").orderBy("updated_at")
    cleaned = (
        today.withColumn("amount", F.col("amount").cast("decimal(18,2)"))
        .withColumn("loaded_at", F.current_timestamp())
        .withColumn("rn", F.row_number().over(newest))
        .filter("rn = 1")
    )

    cleaned.write.mode("overwrite").parquet(f"{{LAKE}}/{table}/day={{day}}")

    # One row per day and region; finance reads it every morning.
    totals = cleaned.groupBy("event_date", "region").agg(
        F.sum("amount").alias("revenue"), F.count("*").alias("orders")
    )
    totals.write.mode("{mode}").partitionBy("event_date").saveAsTable("core.{table}_daily")
    logger.info("loaded {table} at %s", datetime.now())


'''
SPARK_CLEAN = '''def clean_{n}(rows, limits):
    """Clean what the source sends.

    Texts are trimmed, regions are known ones, and amounts lie
    within their limits; what does not is counted and dropped.
    """
    # Amounts come in cents since the new till went live; older rows are in units.
    amounts = rows.withColumn(
        "amount",
        F.when(F.col("version") >= {k}, F.col("amount") / 100)
        .otherwise(F.col("amount")),
    )

    low = limits.get("low", 0)
    high = limits.get("high", 100_000)
    amounts = amounts.withColumn("status", F.lower(F.trim(F.col("status"))))
    amounts = amounts.withColumn("region", F.lower(F.trim(F.col("region"))))
    known = amounts.where(F.col("region").isin(REGIONS))
    inside = known.where(F.col("amount") >= F.lit(low))
    inside = inside.where(F.col("amount") <= F.lit(high))

    dropped = amounts.count() - inside.count()
    if dropped > {k}:
        logger.warning("dropped %s rows of {table}", dropped)

    return inside.select(
        "order_id",
        "customer_id",
        "amount",
        "region",
        "event_date",
    )


'''
SPARK_SQL = '''def publish_{n}(spark, day):
    """Fill the mart of the web application."""
    spark.sql(
        f"""
        -- only what changed in the last days
        INSERT INTO mart.{table}
        SELECT region, SUM(amount) AS amount,
               '{{day}}' AS event_date
        FROM core.{table}
        WHERE event_date = '{{day}}'
          AND updated_at >= current_date() - {k}
        GROUP BY region
        """
    )

    # The application looks for this file before it reads.
    path = f"{{LAKE}}/{table}/day={{day}}/_READY"
    with open(path, "w") as ready:
        ready.write(day)


'''
SPARK_MAIN = """def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--day", required=True)
    options = parser.parse_args()
    spark = SparkSession.builder.appName("{table}").getOrCreate()
    load_1(spark, options.day)


if __name__ == "__main__":
    main()
"""
SQL_LOAD = """-- The daily load of {table}; it runs after the extract, and the day is given.
DELETE FROM core.{table} WHERE event_date = '${{day}}';

INSERT INTO core.{table} (order_id, customer_id, amount, region, event_date, loaded_at)
WITH ranked AS (
    SELECT o.*, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY updated_at DESC) AS rn
    FROM raw.{table} AS o
    WHERE o.event_date >= '${{day}}'
      AND o.event_date < date_add('${{day}}', {k})
)
SELECT
    r.order_id,
    r.customer_id,
    CAST(r.amount AS DECIMAL(18, 2)),
    COALESCE(c.region, 'unknown'),
    r.event_date,
    CURRENT_TIMESTAMP
FROM ranked AS r
LEFT JOIN core.customers AS c ON c.customer_id = r.customer_id
WHERE r.rn = 1;

"""
SQL_MERGE = """-- The newest state of every order.
MERGE INTO core.{table}_latest AS t
USING (
    SELECT order_id, amount, region FROM core.{table} WHERE event_date = '${{day}}'
) AS s
ON t.order_id = s.order_id
WHEN MATCHED THEN UPDATE SET
    t.amount = s.amount,
    t.region = s.region
WHEN NOT MATCHED THEN INSERT (order_id, amount, region)
    VALUES (s.order_id, s.amount, s.region);

"""
SQL_SMALL = """-- What the report of {table} reads.
TRUNCATE TABLE mart.{table};

INSERT INTO mart.{table}
SELECT region, SUM(amount)
FROM core.{table}
WHERE event_date >= '${{day}}'
GROUP BY region;

UPDATE core.loads SET finished = 1 WHERE name = '{table}';

"""
DBT_HEAD = """{{{{ config(
    materialized='incremental',
    unique_key='order_id',
    tags=['daily']
) }}}}

with source as (

    select * from {{{{ ref('stg_{table}') }}}}
    {{% if is_incremental() %}}
    -- only what changed since the last run
    where updated_at > (
        select max(updated_at) from {{{{ this }}}}
    )
    {{% endif %}}

),

"""
DBT_CTE = """step_{n} as (

    -- amounts of kind {n} by order
    select
        order_id, customer_id,
        sum(case when status = 'paid' then amount else 0 end) as amount_{n},
        max(updated_at) as updated_at
    from {{{{ ref('{table}') }}}}
    where kind = 'x{n}'
    group by 1, 2

),

"""
DBT_COLUMN = """        step_{n}.amount_{n},
        case when source.status = 'x{n}' then {k} else 0 end as weight_{n},
        coalesce(step_{n}.updated_at, source.updated_at) as seen_{n},
"""
DAG_HEAD = """import logging
from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator
from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.providers.postgres.operators.postgres import PostgresOperator

logger = logging.getLogger(__name__)
ARGS = {{
    "owner": "data",
    "retries": 2,
    "retry_delay": timedelta(minutes=5),
}}


def notify(context):
    logger.error("failed: %s", context["task_instance"])


"""
DAG_FUNCTION = '''def check_{n}(ds, **context):
    """Look whether the rows of the day are there.

    The count of the day before is the measure.
    """
    hook = PostgresHook(postgres_conn_id="dwh")
    logger.info("checking %s of %s", "{table}", ds)
    rows = hook.get_first(
        "SELECT count(*) FROM core.{table} WHERE day = %s",
        parameters=(ds,),
    )
    if rows[0] < {k}:
        raise ValueError(f"only {{rows[0]}} rows on {{ds}}")

    # The dashboard of the team shows it.
    context["ti"].xcom_push("rows", rows[0])
    logger.info("%s rows, as of %s", rows[0], datetime.now().isoformat())


'''
DAG_WITH = """with DAG(
    "{table}",
    start_date=datetime(2024, 1, 1),
    schedule="@daily",
    default_args=ARGS,
    catchup=False,
    on_failure_callback=notify,
) as dag:
"""
DAG_SUBMIT = """    # The Spark job that fills the day; it is given its date.
    submit_{n} = BashOperator(
        task_id="submit_{n}",
        bash_command=(
            "spark-submit jobs/{table}.py "
            "--date {{{{ ds }}}} --executors {k}"
        ),
        execution_timeout=timedelta(hours=2),
    )

    checked_{n} = PythonOperator(
        task_id="check_{n}",
        python_callable=check_1,
    )

    submit_{n} >> checked_{n}

"""
DAG_TASK = '''    task_{n} = PostgresOperator(
        task_id="load_{n}",
        postgres_conn_id="dwh",
        sql="""
            DELETE FROM mart.{table}
            WHERE day = '{{{{ ds }}}}';

            INSERT INTO mart.{table}
            SELECT day, region, SUM(amount)
            FROM core.{table}
            WHERE day = '{{{{ ds }}}}'
            GROUP BY 1, 2;
        """,
    )

'''
PYTHON_HEAD = """import csv
import logging
import os

import psycopg2
import requests

logger = logging.getLogger(__name__)
API = os.environ.get("API_URL", "https://api.example.com")


def connect():
    return psycopg2.connect(os.environ["DATABASE_URL"])


"""
PYTHON_FETCH = '''def fetch_{n}(day):
    """Fetch the {table} of a day, page by page."""
    rows = []
    page = 1
    while True:
        answer = requests.get(
            f"{{API}}/{table}",
            params={{"day": day, "page": page, "size": {k}}},
            timeout=30,
        )
        answer.raise_for_status()
        found = answer.json()["items"]

        # The last page is empty.
        if not found:
            break
        rows.extend(found)
        page += 1

    logger.info("fetched %s rows", len(rows))
    return rows


'''
PYTHON_STORE = '''def store_{n}(rows, day):
    """Store the rows of a day, and tell the others."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM staging.{table} WHERE day = %s", (day,))
        cursor.execute("SELECT max(id) FROM core.{table}")
        logger.info("newest is %s", cursor.fetchone()[0])
        for row in rows:
            cursor.execute(
                """
                INSERT INTO core.{table} (id, amount, day)
                VALUES (%s, %s, %s)
                """,
                (row["id"], row["amount"], day),
            )
        connection.commit()

    requests.post(
        f"{{API}}/loads",
        json={{"table": "{table}", "rows": len(rows)}},
        timeout=10,
    )


'''
PYTHON_READ = '''def read_{n}(path):
    """Read what the partner sends as a file."""
    rows = []
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            # Empty lines stand at the end of every file.
            if not line.get("id"):
                continue
            amount = line["amount"].replace(",", ".")
            rows.append(
                {{
                    "id": int(line["id"]),
                    "amount": round(float(amount), 2),
                    "kind": line.get("kind", "{table}"),
                }}
            )
    if len(rows) < {k}:
        logger.warning("only %s rows in %s", len(rows), path)
    return rows


'''
# As many of each kind as among labelled real jobs.
KINDS = ("spark", "sql", "dag", "spark", "sql", "dbt", "spark", "sql", "dag", "python")


def _fill(bodies: Sequence[str], dice: random.Random, table: str, lines: int) -> str:
    text, number = "", 0
    while text.count("\n") < lines:
        body = bodies[number % len(bodies)]
        number += 1
        mode, days = dice.choice(["append", "overwrite"]), dice.randint(1, 30)
        text += body.format(n=number, table=f"{table}_{number}", mode=mode, k=days)
    return text


def _job(kind: str, number: int, dice: random.Random, table: str, lines: int) -> tuple[str, str]:
    """Return the name and the text of one file."""
    if kind == "spark":
        bodies = _fill([SPARK_LOAD, SPARK_SQL, SPARK_CLEAN, SPARK_LOAD], dice, table, lines - 25)
        return f"job_{number}.py", SPARK_HEAD + bodies + SPARK_MAIN.format(table=table)
    if kind == "sql":
        return f"load_{number}.sql", _fill([SQL_LOAD, SQL_MERGE, SQL_SMALL], dice, table, lines)
    if kind == "python":
        bodies = _fill([PYTHON_STORE, PYTHON_FETCH, PYTHON_STORE, PYTHON_READ], dice, table, lines - 14)
        return f"sync_{number}.py", PYTHON_HEAD + bodies
    if kind == "dag":
        head = DAG_HEAD.format() + _fill([DAG_FUNCTION], dice, table, 60) + DAG_WITH.format(table=table)
        return f"dags/dag_{number}.py", head + _fill([DAG_SUBMIT, DAG_TASK], dice, table, lines - head.count("\n"))
    steps = max(1, (lines - 25) // 17)
    text = DBT_HEAD.format(table=table) + "".join(DBT_CTE.format(n=n, table=f"{table}_{n}") for n in range(steps))
    text += "final as (\n    select\n"
    text += "".join(DBT_COLUMN.format(n=n, k=dice.randint(1, 30)) for n in range(steps))
    text += "        source.order_id\n    from source\n"
    text += "".join(f"    left join step_{n} using (order_id)\n" for n in range(steps))
    return f"models/fct_{number}.sql", text + ")\n\nselect * from final\n"


def generate(folder: Path, count: int, lines: int) -> None:
    """Write a fleet of jobs: different tables, the same seed every time."""
    dice = random.Random(7)
    for number in range(count):
        table = f"t{number}_{dice.randint(0, 10**6)}"
        name, text = _job(KINDS[number % len(KINDS)], number, dice, table, lines)
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def run(folder: Path, cache: Path) -> tuple[float, float, int, float]:
    """Run the command; return seconds, the largest process in MB, the number of findings, and seconds of CPU."""
    code = (
        "import resource, sys\nfrom twice.cli.app import run_command\n"
        f"code = run_command(['-q', 'audit', {str(folder)!r}, '--format', 'json'])\n"
        "peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))\n"
        "used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
        "cpu = sum(one.ru_utime + one.ru_stime for one in used)\n"
        "print(peak, cpu, file=sys.stderr)\nsys.exit(0 if code in (0, 1) else code)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    peak, cpu = done.stderr.split()[-2:]
    return seconds, int(peak) / 1024, len(json.loads(done.stdout)["findings"]), float(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, half = folder / "whole", folder / "half"
        for target, count in ((whole, options.files), (half, options.files // 2)):
            target.mkdir()
            generate(target, count, options.lines)
        _, peak_half, _, _ = run(half, folder / "cache_half")
        cold, peak, findings, cpu = run(whole, folder / "cache")
        warm = min(run(whole, folder / "cache")[0] for _ in range(3))
    load = os.getloadavg()[0]
    print(f"{options.files} files of {options.lines} lines: cold {cold:.1f} s, warm {warm:.2f} s, {findings} findings")
    print(f"{cpu:.1f} s of CPU; the machine's load was {load:.1f}: more than its cores means that others worked too")
    answer = {
        "files": options.files,
        "lines": options.lines,
        "cold_s": round(cold, 2),
        "warm_s": round(warm, 2),
        "cpu_s": round(cpu, 2),
        "findings": findings,
        "peak_mb": round(peak),
        "peak_mb_half": round(peak_half),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(load, 1),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
