from datetime import datetime, timedelta

from airflow.decorators import dag, task
from google.cloud import bigquery

DEFAULTS = dict(owner="web", retries=2, retry_delay=timedelta(minutes=3))


@dag(dag_id="ga_sessions", default_args=DEFAULTS, schedule="@daily", start_date=datetime(2023, 6, 1), catchup=True)
def ga_sessions():
    @task
    def extract():
        day = (datetime.utcnow() - timedelta(days=1)).strftime("%Y%m%d")
        client = bigquery.Client()
        sql = f"SELECT fullVisitorId, visitId, totals.pageviews FROM `ga.ga_sessions_{day}`"
        return [dict(r) for r in client.query(sql).result()]

    @task
    def load(rows):
        client = bigquery.Client()
        cfg = bigquery.LoadJobConfig(write_disposition="WRITE_APPEND")
        job = client.load_table_from_json(rows, "web.sessions", job_config=cfg)
        job.result()
        print(f"loaded {job.output_rows} rows")

    load(extract())


ga_sessions()
