# sends every closed order to the fulfilment partner
import os
import sys
import time

import pymysql
import requests

API = os.environ.get("FULFIL_API", "https://api.fulfil.example/v2")


def closed_orders(cnx, day):
    with cnx.cursor(pymysql.cursors.DictCursor) as c:
        c.execute("SELECT id, payload FROM orders WHERE closed_day = %s ORDER BY id", (day,))
        return c.fetchall()


def auth():
    r = requests.post(f"{API}/oauth/token", json={"client": os.environ["CLIENT"], "secret": os.environ["SECRET"]}, timeout=10)
    return r.json()["token"]


def main(day):
    cnx = pymysql.connect(host="mysql", user="fulfil", password=os.environ["MYSQL_PW"], database="shop")
    headers = {"Authorization": f"Bearer {auth()}"}
    ok = 0
    t = time.time()
    for o in closed_orders(cnx, day):
        r = requests.post(f"{API}/shipments", data=o["payload"], headers=headers, timeout=30)
        if r.status_code == 201:
            ok += 1
        else:
            print("failed", o["id"], r.text[:200])
    print(f"{ok} shipments in {time.time() - t:.1f}s")
    requests.post(os.environ["SLACK_WEBHOOK"], json={"text": f"{ok} shipments of {day} sent"}, timeout=5)
    with cnx.cursor() as c:
        c.execute("REPLACE INTO fulfil_runs (run_day, shipments) VALUES (%s, %s)", (day, ok))
    cnx.commit()


if __name__ == "__main__":
    main(sys.argv[1])
