import pandas as pd
from dagster import AssetExecutionContext, DailyPartitionsDefinition, MaterializeResult, MetadataValue, RetryPolicy, asset
from sqlalchemy import text

from ..resources import Warehouse

daily = DailyPartitionsDefinition(start_date="2023-01-01")


@asset(partitions_def=daily, compute_kind="python", retry_policy=RetryPolicy(max_retries=3))
def meter_readings(context: AssetExecutionContext, warehouse: Warehouse) -> MaterializeResult:
    day = context.partition_key
    frame = pd.read_parquet(f"s3://meters/raw/{day}/")
    frame = frame[frame["quality"] != "E"]
    with warehouse.engine().begin() as tx:
        tx.execute(text("DELETE FROM meter_readings WHERE reading_day = :d"), {"d": day})
        frame.assign(reading_day=day).to_sql("meter_readings", tx, if_exists="append", index=False)
    context.log.info("stored %d readings of %s", len(frame), day)
    return MaterializeResult(metadata={"rows": MetadataValue.int(len(frame))})


@asset(partitions_def=daily, deps=[meter_readings], retry_policy=RetryPolicy(max_retries=2))
def daily_consumption(context: AssetExecutionContext, warehouse: Warehouse) -> None:
    day = context.partition_key
    with warehouse.engine().begin() as tx:
        tx.execute(
            text(
                """
                INSERT INTO daily_consumption (reading_day, meter_id, kwh)
                SELECT reading_day, meter_id, MAX(counter) - MIN(counter)
                FROM meter_readings WHERE reading_day = :d
                GROUP BY reading_day, meter_id
                """
            ),
            {"d": day},
        )


@asset(deps=[daily_consumption])
def consumption_report(warehouse: Warehouse) -> None:
    frame = pd.read_sql("SELECT * FROM daily_consumption", warehouse.engine())
    pivot = frame.pivot_table(index="meter_id", columns="reading_day", values="kwh", aggfunc="sum")
    pivot.to_parquet("s3://meters/report/consumption.parquet")
