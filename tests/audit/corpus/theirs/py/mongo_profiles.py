import os
from datetime import datetime, timezone

import pandas as pd
from pymongo import MongoClient, UpdateOne

client = MongoClient(os.environ["MONGO_URL"])
profiles = client.crm.profiles


def build(day):
    visits = pd.read_parquet(f"s3://crm/visits/day={day}/")
    g = visits.sort_values(["user_id", "visit_ts", "visit_id"]).groupby("user_id", sort=True)
    return pd.DataFrame({"last_url": g["url"].last(), "visits": g.size()}).reset_index()


def store(day, frame):
    ops = []
    for r in frame.to_dict("records"):
        ops.append(
            UpdateOne(
                {"_id": f"{r['user_id']}:{day}"},
                {"$set": {"user_id": r["user_id"], "day": day, "visits": r["visits"], "last_url": r["last_url"]}},
                upsert=True,
            )
        )
    if ops:
        res = profiles.bulk_write(ops, ordered=False)
        print(datetime.now(timezone.utc), "upserted", res.upserted_count, "modified", res.modified_count)


if __name__ == "__main__":
    import sys

    d = sys.argv[1]
    store(d, build(d))
