"""How fast `twice audit` reads a fleet: 1,000 files of 200 lines (PySpark, SQL, dbt, Airflow), cold and with its cache.

The files are generated from a seed, all different, and unsafe in the usual ways. `cold_s` is the whole command with an
empty cache (the promise: less than 20 s on two cores), `warm_s` the same command again (less than 2 s). `peak_mb` is
the largest process, and `peak_mb_half` the same for half of the files: memory must not grow with the fleet. There is
no peer to compare with: what other linters find is not this.
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

PYSPARK = '''def load_{n}(spark, day):
    """Load {table} for a day.

    Reads what the source system delivered, cleans the amounts, keeps one row per order and
    writes the totals by region, from which the mart is filled.
    """
    # The source sends the same order again whenever its status changes.
    raw = spark.table("raw.{table}").where(F.col("event_date") == F.lit(day))
    cleaned = (
        raw.withColumn("amount", F.col("amount").cast("decimal(18,2)"))
        .withColumn("loaded_at", F.current_timestamp())
        .filter(F.col("status").isNotNull())
        .dropDuplicates(["order_id"])
    )

    # One row per day and region; finance reads it every morning.
    totals = cleaned.groupBy("event_date", "region").agg(F.sum("amount").alias("revenue"), F.count("*").alias("orders"))
    totals.write.mode("{mode}").partitionBy("event_date").saveAsTable("core.{table}_daily")

    spark.sql(f"""
        -- the mart of the web application
        INSERT INTO mart.{table}
        SELECT region, SUM(amount) AS amount, '{{day}}' AS event_date
        FROM core.{table}
        WHERE event_date = '{{day}}' AND updated_at >= current_date() - {k}
        GROUP BY region
    """)
    logger.info("loaded %s rows of {table} at %s", totals.count(), datetime.now())


'''
TRANSFORM = '''def clean_{n}(rows, limits):
    """Clean what the source sends: trimmed texts, known regions, amounts within their limits."""
    trimmed = rows
    for name in ("status", "region", "channel", "currency"):
        trimmed = trimmed.withColumn(name, F.lower(F.trim(F.col(name))))

    # Amounts come in cents since the new till; older rows are in units.
    amounts = trimmed.withColumn(
        "amount",
        F.when(F.col("version") >= {k}, F.col("amount") / 100).otherwise(F.col("amount")),
    )
    low, high = limits.get("low", 0), limits.get("high", 100_000)
    inside = amounts.where((F.col("amount") >= F.lit(low)) & (F.col("amount") <= F.lit(high)))
    dropped = amounts.count() - inside.count()
    if dropped:
        logger.warning("dropped %s rows of {table}", dropped)
    return inside.select("order_id", "customer_id", "amount", "region", "status", "event_date")


'''
SQL = """-- the daily load of {table}
DELETE FROM core.{table} WHERE event_date = '${{day}}';

INSERT INTO core.{table} (order_id, customer_id, amount, region, event_date, loaded_at)
WITH ranked AS (
    SELECT o.*, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY updated_at DESC) AS rn
    FROM raw.{table} AS o
    WHERE o.event_date >= '${{day}}' AND o.event_date < date_add('${{day}}', {k})
)
SELECT r.order_id, r.customer_id, CAST(r.amount AS DECIMAL(18, 2)), COALESCE(c.region, 'unknown'), r.event_date,
       CURRENT_TIMESTAMP
FROM ranked AS r
LEFT JOIN core.customers AS c ON c.customer_id = r.customer_id
WHERE r.rn = 1;

MERGE INTO core.{table}_latest AS t
USING (SELECT * FROM core.{table} WHERE event_date = '${{day}}') AS s
ON t.order_id = s.order_id
WHEN MATCHED THEN UPDATE SET t.amount = s.amount, t.region = s.region
WHEN NOT MATCHED THEN INSERT (order_id, amount, region) VALUES (s.order_id, s.amount, s.region);

"""
DBT = """{{{{ config(materialized='incremental', unique_key='order_id') }}}}
with source as (
    select * from {{{{ ref('stg_{table}') }}}}
    {{% if is_incremental() %}}
    where updated_at > (select max(updated_at) from {{{{ this }}}})
    {{% endif %}}
)
"""
DBT_COLUMN = "     , case when status = 'x{n}' then amount else 0 end as amount_{n}\n"
DAG = """from datetime import datetime, timedelta
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.providers.postgres.operators.postgres import PostgresOperator

args = {{"retries": 2}}
with DAG("{table}", start_date=datetime(2024, 1, 1), schedule="@daily", default_args=args, catchup=False) as dag:
"""
DAG_SUBMIT = """    # The Spark job that fills the day; it is given its date.
    submit_{n} = BashOperator(
        task_id="submit_{n}",
        bash_command="spark-submit jobs/{table}.py --date {{{{ ds }}}} --executors {k}",
        execution_timeout=timedelta(hours=2),
    )
"""
DAG_TASK = '''    task_{n} = PostgresOperator(
        task_id="load_{n}",
        sql="""
            DELETE FROM mart.{table}_{n} WHERE day = '{{{{ ds }}}}';
            INSERT INTO mart.{table}_{n}
            SELECT day, region, SUM(amount) FROM core.{table} WHERE day = '{{{{ ds }}}}' GROUP BY 1, 2;
        """,
    )
'''


def _fill(head: str, bodies: Sequence[str], dice: random.Random, table: str, lines: int) -> str:
    text, number = head, 0
    while text.count("\n") < lines:
        body = bodies[number % len(bodies)]
        number += 1
        mode, days = dice.choice(["append", "overwrite"]), dice.randint(1, 30)
        text += body.format(n=number, table=f"{table}_{number}", mode=mode, k=days)
    return text


def generate(folder: Path, count: int, lines: int) -> None:
    dice = random.Random(7)
    imports = "import logging\nfrom datetime import datetime\nfrom pyspark.sql import functions as F\n\n"
    head = f"{imports}logger = logging.getLogger(__name__)\n\n\n"
    for number in range(count):
        table = f"t{number}_{dice.randint(0, 10**6)}"
        kind = number % 5
        if kind in {0, 1}:
            name, text = f"job_{number}.py", _fill(head, [PYSPARK, TRANSFORM, TRANSFORM], dice, table, lines)
        elif kind == 2:
            name, text = f"load_{number}.sql", _fill("", [SQL], dice, table, lines)
        elif kind == 3:
            columns = _fill(DBT.format(table=table) + "select order_id\n", [DBT_COLUMN], dice, table, lines - 1)
            name, text = f"models/fct_{number}.sql", columns + "from source\n"
        else:
            name, text = (
                f"dags/dag_{number}.py",
                _fill(DAG.format(table=table), [DAG_SUBMIT, DAG_TASK], dice, table, lines),
            )
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
