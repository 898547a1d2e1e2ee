"""What serving costs: replacing 30 days of a mart in Postgres, by twice and by Spark's own JDBC writer.

700,000 rows of a 1-million-row table with a primary key are replaced. Both sides load an UNLOGGED staging table, run
the same uniqueness check on it, and replace the scope in one transaction. The JDBC writer is at its best: batches of
10,000 rewritten into multi-row inserts, coalesced to the cores, no shuffle. Interleaved, medians: with rows in the
order of the key (`vs_jdbc`; `swap_s` is what DELETE and INSERT take there), and in no order, as an aggregation of
unsorted events leaves them (`vs_jdbc_unsorted`). Then the staging load alone against psql's COPY of the same rows from
a CSV file, and the WAL of a rerun in which 1 % of the rows changed, spread evenly, against the WAL of a full replace:
without the page images that follow a checkpoint, and with them.

    python bench/serving.py [--rows 700000] [--days 30] [--rounds 5]

It starts a Postgres server of its own, as an unprivileged user, without fsync: both sides are spared the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg
from pyspark.sql import functions as F

from tests.support import servers
from twice import Day, Overwrite, Table
from twice import config as configuration
from twice.engine.spark import session as sessions
from twice.engine.stores import open_store
from twice.model.scopes import Scope
from twice.model.targets import Target
from twice.model.windows import Window
from twice.store.protocol import Store
from twice.store.sql.read import jdbc
from twice.store.sql.schema import bookkeeping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = date(2026, 1, 1)
KEPT = 3  # days that stay, for every seven that are replaced
CORES = 2
KEY = "order_date, customer_id"
UNIQUE = f"SELECT {KEY} FROM {{}} GROUP BY {KEY} HAVING count(*) > 1 LIMIT 1"
COLUMNS = """order_date date NOT NULL, customer_id bigint NOT NULL, orders integer, revenue numeric(12,2),
    country text, last_order_at timestamptz, segment text"""
TOML = """
[ledger]
url = "sqlite:///ledger.db"
[stores.serving]
type = "sql"
url = "{url}"
[profiles.default.spark]
"spark.master" = "local[{cores}]"
"spark.driver.memory" = "3g"
"""


@dataclass
class Bench:
    """What both sides share, and what was measured."""

    spark: SparkSession
    server: servers.PostgresServer
    url: str
    folder: Path
    store: Store
    days: int
    rows: int
    tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The mart that twice keeps."""
        return Table(
            "serving.public.by_twice", partition=Day("order_date"), key=["order_date", "customer_id"], write=Overwrite()
        )

    @property
    def target(self) -> Target:
        """The scope that is replaced."""
        zone = ZoneInfo("UTC")
        start, end = (Day.parse(day.isoformat(), zone) for day in (START, START + timedelta(days=self.days)))
        return Target.of(self.table, Scope.of(Window(start, end)), zone)

    def feed(self, name: str) -> DataFrame:
        """Read one of the prepared inputs."""
        return self.spark.read.parquet(str(self.folder / name))

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in one transaction; return the rows of the last one."""
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def settle(self, *, checkpoint: bool = True) -> None:
        """Let no side pay for what another left behind."""
        for statement in ("VACUUM by_twice", "VACUUM by_jdbc", *(["CHECKPOINT"] if checkpoint else [])):
            self.server.execute(statement, self.url)

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """Measure once."""
        self.settle()
        started = time.monotonic()
        work()
        seconds = time.monotonic() - started
        self.times.setdefault(name, []).append(seconds)
        print(f"{name:14} {seconds:6.2f} s  {self.rows / seconds:12,.0f} rows/s", file=sys.stderr)

    def wal(self, work: Callable[[], object], *, checkpoint: bool = False) -> int:
        """Return how many bytes of WAL some work writes; after a checkpoint, images of whole pages come with it."""
        self.settle(checkpoint=checkpoint)
        before = self.sql("SELECT pg_current_wal_insert_lsn()")[0][0]
        work()
        return int(self.sql(f"SELECT pg_current_wal_insert_lsn() - '{before}'::pg_lsn")[0][0])

    def require_unique(self, staged: str) -> None:
        """Check the key in the staging table, as both sides do."""
        if self.sql(UNIQUE.format(staged)):
            raise AssertionError("duplicate keys")


def make_feeds(bench: Bench) -> None:
    """Write the inputs once: the whole mart, two versions of the days with no row in common, one with 1 % changed."""
    per_day = bench.rows // bench.days
    mart = bench.days * (7 + KEPT) // 7
    for name, count, revision in [("mart", mart, 0), ("one", bench.days, 1), ("two", bench.days, 2)]:
        _days(bench.spark, count, per_day, f"{revision}").write.parquet(str(bench.folder / name))
    mixed = bench.feed("two").repartition(CORES, "customer_id", "order_date")
    mixed.sortWithinPartitions(F.xxhash64("customer_id", "order_date")).write.parquet(str(bench.folder / "unsorted"))
    little = "case when id % 100 = 0 then 3 else 1 end"
    _days(bench.spark, bench.days, per_day, little).write.parquet(str(bench.folder / "little"))
    bench.feed("one").coalesce(1).write.option("timestampFormat", "yyyy-MM-dd HH:mm:ssXXX").csv(
        str(bench.folder / "csv")
    )


def _days(spark: SparkSession, count: int, per_day: int, revision: str) -> DataFrame:
    return (
        spark.range(count * per_day, numPartitions=CORES)
        .selectExpr("id", f"cast(id div {per_day} as int) as day", f"id % {per_day} as customer_id", f"{revision} as r")
        .selectExpr(
            f"date_add(date'{START}', day) as order_date",
            "customer_id",
            "cast(id % 7 + 1 as int) as orders",
            "cast((id * 37 % 100000) / 100 + r as decimal(12,2)) as revenue",
            "element_at(array('DE', 'FR', 'NL', 'US', null), cast(id % 5 + 1 as int)) as country",
            f"timestamp'{START} 00:00:00Z' + make_dt_interval(day, 0, 0, cast(id % 86400 as int)) as last_order_at",
            "concat('segment ', cast(id % 50 as string)) as segment",
        )
    )


def by_twice(bench: Bench, feed: str) -> None:
    """Stage, check, publish."""
    rows, target = bench.feed(feed), bench.target
    bench.store.prepare(bench.spark, target.table, rows.schema)
    staged = bench.store.open(bench.spark, target, next(bench.tokens))
    bench.store.stage(bench.spark, staged, rows)
    bench.require_unique(f'"{bookkeeping.stage_name(target.table.id, staged.token)}"')
    bench.store.publish(bench.spark, staged, target.partitions, {}, {})


def load_alone(bench: Bench, feed: str) -> None:
    """Measure the load into a staging table that is there, as psql has it."""
    staged = bench.store.open(bench.spark, bench.target, next(bench.tokens))
    rows = bench.feed(feed)
    bench.timed("stage", lambda: bench.store.stage(bench.spark, staged, rows))
    bench.store.discard(bench.spark, staged, {})


def by_jdbc(bench: Bench, feed: str) -> None:
    """Do the same with Spark's JDBC writer and one transaction by hand."""
    bench.sql(f"CREATE UNLOGGED TABLE stage_jdbc ({COLUMNS})")
    options = jdbc.options(bench.store.database)  # type: ignore[attr-defined]
    url = options.pop("url") + "&reWriteBatchedInserts=true"
    writer = bench.feed(feed).coalesce(CORES).write.mode("append").option("batchsize", "10000")
    writer.jdbc(url, "stage_jdbc", properties=options)
    bench.require_unique("stage_jdbc")
    end = START + timedelta(days=bench.days)
    started = time.monotonic()
    bench.sql(
        f"DELETE FROM by_jdbc WHERE order_date >= '{START}' AND order_date < '{end}'",
        "INSERT INTO by_jdbc SELECT * FROM stage_jdbc",
        "DROP TABLE stage_jdbc",
    )
    if feed != "unsorted":
        bench.times.setdefault("swap", []).append(time.monotonic() - started)


def by_copy(bench: Bench) -> None:
    """Load the staging table with psql from the CSV file."""
    file = next((bench.folder / "csv").glob("*.csv"))
    command = [str(bench.server.bin / "psql"), "-Xq", "-d", bench.url, "-v", "ON_ERROR_STOP=1"]
    subprocess.run([*command, "-c", f"\\copy stage_copy from '{file}' with (format csv)"], check=True)


def compare(bench: Bench) -> None:
    """Refuse to report a race in which the sides did not do the same."""
    for name in ("by_twice", "by_jdbc"):
        other = "by_jdbc" if name == "by_twice" else "by_twice"
        if found := bench.sql(f"SELECT * FROM {name} EXCEPT ALL SELECT * FROM {other} LIMIT 1"):
            raise AssertionError(f"{name} has a row that {other} has not: {found}")


def measure(bench: Bench, rounds: int) -> dict[str, object]:
    """Race, interleaved; the first round warms up and does not count."""
    # A checkpoint comes when the bench asks for one.
    for setting in ("max_wal_size = '16GB'", "checkpoint_timeout = '1h'"):
        bench.server.execute(f"ALTER SYSTEM SET {setting}")
    bench.sql("SELECT pg_reload_conf()")
    bench.store.prepare(bench.spark, bench.table, bench.feed("mart").schema)
    bench.sql(f"CREATE TABLE by_jdbc ({COLUMNS}, PRIMARY KEY ({KEY}))")
    load = bench.feed("mart").coalesce(CORES).write.mode("append")
    options = jdbc.options(bench.store.database)  # type: ignore[attr-defined]
    url = options.pop("url") + "&reWriteBatchedInserts=true"
    for name in ("by_twice", "by_jdbc"):
        load.jdbc(url, name, properties=options)
        bench.server.execute(f"VACUUM ANALYZE {name}", bench.url)
    for _ in range(rounds + 1):
        # No row of one feed is in the other: each of them replaces the scope.
        bench.timed("twice", lambda: by_twice(bench, "one"))
        bench.timed("jdbc", lambda: by_jdbc(bench, "one"))
        bench.timed("twice_unsorted", lambda: by_twice(bench, "unsorted"))
        bench.timed("jdbc_unsorted", lambda: by_jdbc(bench, "unsorted"))
        load_alone(bench, "one")
        bench.sql(f"CREATE UNLOGGED TABLE stage_copy ({COLUMNS})")
        bench.timed("copy", lambda: by_copy(bench))
        bench.sql("DROP TABLE stage_copy")
        compare(bench)
    by_twice(bench, "two")
    full = bench.wal(lambda: by_twice(bench, "one"))
    little = bench.wal(lambda: by_twice(bench, "little"))
    full_images = bench.wal(lambda: by_twice(bench, "two"), checkpoint=True)
    by_twice(bench, "one")
    little_images = bench.wal(lambda: by_twice(bench, "little"), checkpoint=True)
    middle = {name: statistics.median(seconds[1:]) for name, seconds in bench.times.items()}
    return {
        "bench": "serving",
        "vs_jdbc": round(middle["jdbc"] / middle["twice"], 3),
        "vs_jdbc_unsorted": round(middle["jdbc_unsorted"] / middle["twice_unsorted"], 3),
        "stage_vs_copy": round(middle["copy"] / middle["stage"], 3),
        "wal_ratio": round(little / full, 4),
        "wal_ratio_after_checkpoint": round(little_images / full_images, 4),
        **{f"{name}_s": round(seconds, 2) for name, seconds in middle.items()},
        "wal_full_mib": round(full / 2**20, 1),
        "wal_little_mib": round(little / 2**20, 1),
        "rows": bench.rows,
        "days": bench.days,
    }


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=700_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, servers.running(servers.PostgresServer) as server:
        file, url = Path(folder) / "twice.toml", server.database()
        file.write_text(TOML.format(url=url, cores=CORES))
        config = configuration.load(file)
        spark = sessions.start(config)
        try:
            store: Any = open_store(config.store("serving"), config.root)
            bench = Bench(spark, server, url, Path(folder), store, options.days, options.rows)
            print(f"preparing {options.rows:,} rows in {options.days} days …", file=sys.stderr)
            make_feeds(bench)
            print(json.dumps(measure(bench, options.rounds)))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
