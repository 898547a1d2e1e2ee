import csv
import glob
import os
import shutil

import psycopg2

INBOX = "/srv/ftp/stock"
DONE = "/srv/ftp/stock/done"


def newest_file():
    files = glob.glob(os.path.join(INBOX, "stock_*.csv"))
    if not files:
        raise SystemExit("no file")
    return max(files, key=os.path.getmtime)


def import_file(conn, path):
    cur = conn.cursor()
    with open(path) as fh:
        for row in csv.DictReader(fh, delimiter=";"):
            # the supplier sends movements
            cur.execute(
                "UPDATE stock SET quantity = quantity + %s WHERE sku = %s AND warehouse = %s",
                (int(row["qty"]), row["sku"], row["warehouse"]),
            )
            if cur.rowcount == 0:
                cur.execute(
                    "INSERT INTO stock (sku, warehouse, quantity) VALUES (%s, %s, %s)",
                    (row["sku"], row["warehouse"], int(row["qty"])),
                )
    conn.commit()
    cur.close()


if __name__ == "__main__":
    path = newest_file()
    print("importing", path)
    c = psycopg2.connect(host=os.environ["PGHOST"], dbname="erp", user=os.environ["PGUSER"], password=os.environ["PGPASSWORD"])
    import_file(c, path)
    c.close()
    shutil.move(path, DONE)
