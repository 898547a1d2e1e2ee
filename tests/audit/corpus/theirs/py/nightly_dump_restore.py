"""Copies the reference tables from production to reporting. Full copies, replaced as a whole."""
import argparse
import datetime
import io
import logging
import uuid

import psycopg2

TABLES = ("country", "currency", "tax_rate", "unit")
logger = logging.getLogger("copy")


def copy_table(src, dst, table):
    buffer = io.StringIO()
    with src.cursor() as cur:
        cur.copy_expert(f"COPY ref.{table} TO STDOUT WITH CSV", buffer)
    buffer.seek(0)
    scratch = f"tmp_{table}_{uuid.uuid4().hex[:8]}"
    with dst.cursor() as cur:
        cur.execute(f"CREATE TEMP TABLE {scratch} (LIKE ref.{table} INCLUDING DEFAULTS) ON COMMIT DROP")
        cur.copy_expert(f"COPY {scratch} FROM STDIN WITH CSV", buffer)
        cur.execute(f"DELETE FROM ref.{table}")
        cur.execute(f"INSERT INTO ref.{table} SELECT * FROM {scratch}")
        logger.info("%s: %s rows", table, cur.rowcount)
    dst.commit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    args = parser.parse_args()
    logname = f"/var/log/copy_{datetime.date.today():%Y%m%d}.log"
    logging.basicConfig(filename=logname, level=logging.INFO)
    src, dst = psycopg2.connect(args.source), psycopg2.connect(args.target)
    for t in TABLES:
        copy_table(src, dst, t)


if __name__ == "__main__":
    main()
