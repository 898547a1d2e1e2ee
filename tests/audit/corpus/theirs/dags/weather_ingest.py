import json
import logging

import pendulum
import requests
from airflow.decorators import dag, task
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.postgres.hooks.postgres import PostgresHook

BUCKET = "weather-raw"
CITIES = ["berlin", "lyon", "porto"]
logger = logging.getLogger(__name__)


@dag(
    schedule="@hourly",
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=True,
    default_args={"retries": 2},
    tags=["weather"],
)
def weather_ingest():
    @task
    def fetch(city: str, data_interval_start=None):
        hour = data_interval_start.strftime("%Y-%m-%dT%H")
        resp = requests.get("https://api.weather.example/v1/history", params={"q": city, "hour": hour}, timeout=30)
        resp.raise_for_status()
        key = f"{city}/{hour}.json"
        S3Hook("aws").load_string(json.dumps(resp.json()), key=key, bucket_name=BUCKET, replace=True)
        return key

    @task
    def load(key: str):
        doc = json.loads(S3Hook("aws").read_key(key, BUCKET))
        hook = PostgresHook("dwh")
        hook.run(
            """
            INSERT INTO weather.observation (city, observed_at, temp_c, humidity)
            VALUES (%(city)s, %(ts)s, %(temp)s, %(hum)s)
            ON CONFLICT (city, observed_at) DO UPDATE
               SET temp_c = EXCLUDED.temp_c, humidity = EXCLUDED.humidity
            """,
            parameters={"city": doc["city"], "ts": doc["ts"], "temp": doc["temp"], "hum": doc["humidity"]},
        )
        logger.info("stored %s", key)

    load.expand(key=fetch.expand(city=CITIES))


weather_ingest()
