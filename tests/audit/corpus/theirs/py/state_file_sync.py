import json
from datetime import datetime
from pathlib import Path

import sqlite3
import requests

STATE = Path.home() / ".gh_sync_state.json"
DB = "issues.db"


def read_state():
    if STATE.exists():
        return json.loads(STATE.read_text())["since"]
    return "2015-01-01T00:00:00Z"


def write_state(value):
    STATE.write_text(json.dumps({"since": value}))


def fetch(since):
    page = 1
    while True:
        r = requests.get("https://git.example/api/issues", params={"since": since, "page": page, "per_page": 100})
        items = r.json()
        if not items:
            return
        yield from items
        page += 1


def main():
    con = sqlite3.connect(DB)
    con.execute("create table if not exists issue (id integer, number integer, state text, title text, updated_at text)")
    since = read_state()
    started = datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")
    n = 0
    for it in fetch(since):
        con.execute("insert into issue values (?, ?, ?, ?, ?)", (it["id"], it["number"], it["state"], it["title"], it["updated_at"]))
        n += 1
    con.commit()
    write_state(started)
    print(n, "issues")


main()
