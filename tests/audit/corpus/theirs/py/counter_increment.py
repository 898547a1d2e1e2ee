from datetime import datetime, timedelta
import sys
import redis
from pymongo import MongoClient

db = MongoClient("mongodb://mongo:27017").stats
cache = redis.Redis(host="redis")


def parse(line):
    ip, ts, path, status = line.rstrip("\n").split("\t")
    return ip, datetime.fromisoformat(ts), path, int(status)


def run(day):
    start = datetime.fromisoformat(day)
    end = start + timedelta(days=1)
    hits = {}
    with open(f"/logs/{day}.tsv") as fh:
        for line in fh:
            ip, ts, path, status = parse(line)
            if not (start <= ts < end):
                continue
            hits[path] = hits.get(path, 0) + 1
    for path, n in hits.items():
        db.page_hits.update_one({"_id": path}, {"$inc": {"hits": n}}, upsert=True)
    db.daily.replace_one({"_id": day}, {"_id": day, "total": sum(hits.values())}, upsert=True)
    cache.set(f"hits:{day}", sum(hits.values()), ex=86400 * 40)


if __name__ == "__main__":
    run(sys.argv[1])
