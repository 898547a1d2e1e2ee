"""Upserts the product catalogue; the row only moves forward in version."""
from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

UPSERT = """
    INSERT INTO catalogue.product (product_id, title, price, version, content)
    VALUES (%(id)s, %(title)s, %(price)s, %(version)s, %(content)s)
    ON CONFLICT (product_id) DO UPDATE
    SET title = EXCLUDED.title,
        price = EXCLUDED.price,
        version = EXCLUDED.version,
        content = EXCLUDED.content
    WHERE catalogue.product.version < EXCLUDED.version
"""
logger = logging.getLogger(__name__)


def documents(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as handle:
        for number, line in enumerate(handle, 1):
            if not line.strip():
                continue
            doc = json.loads(line)
            if "id" not in doc:
                logger.warning("%s:%d has no id", path, number)
                continue
            yield {**doc, "content": json.dumps(doc, sort_keys=True)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--dsn", required=True)
    args = parser.parse_args()
    with psycopg.connect(args.dsn, row_factory=dict_row) as conn, conn.cursor() as cur:
        cur.executemany(UPSERT, list(documents(args.file)))
        cur.execute("SELECT count(*) AS n FROM catalogue.product")
        logger.info("catalogue has %s products", cur.fetchone()["n"])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
