from datetime import date, timedelta

import pandas as pd
from prefect import flow, get_run_logger, task
from prefect.blocks.system import Secret
from prefect_sqlalchemy import SqlAlchemyConnector


@task(retries=3, retry_delay_seconds=60)
def read_features(snapshot: date) -> pd.DataFrame:
    with SqlAlchemyConnector.load("dwh") as db:
        return pd.read_sql("select * from ml.features where snapshot_date = %(d)s", db.get_engine(), params={"d": snapshot})


@task
def score(features: pd.DataFrame) -> pd.DataFrame:
    import joblib

    model = joblib.load("/models/churn/current.joblib")
    features["score"] = model.predict_proba(features.drop(columns=["customer_id", "snapshot_date"]))[:, 1]
    return features[["customer_id", "snapshot_date", "score"]]


@task(retries=2)
def write_scores(frame: pd.DataFrame) -> int:
    with SqlAlchemyConnector.load("dwh") as db:
        frame.to_sql("churn_scores", db.get_engine(), schema="ml", if_exists="append", index=False)
    return len(frame)


@flow(name="churn-scores", log_prints=True)
def churn_scores(snapshot: date | None = None):
    logger = get_run_logger()
    snapshot = snapshot or date.today() - timedelta(days=1)
    n = write_scores(score(read_features(snapshot)))
    logger.info("%d scores for %s", n, snapshot)


if __name__ == "__main__":
    churn_scores()
