"""Use Spark as the tests do, then let Java end and write its class-data archive: `scripts/setup-classes`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.project import toml
from twice import config as configuration
from twice.engine.spark import session


def main() -> None:
    """Load the classes of a session: tables of each format, a merge, windows, joins, Python rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "twice.toml"
        file.write_text(toml(folder))
        spark = session.start(configuration.load(file))
        gateway = spark.sparkContext._gateway
        rows = spark.createDataFrame([(1, "a", 1.5), (2, "b", None)], "id bigint, name string, n double")
        rows.createOrReplaceTempView("given")
        spark.sql("create namespace lake.s")
        spark.sql("create table lake.s.t (id bigint, name string, n double, d date) using iceberg partitioned by (d)")
        spark.sql("insert into lake.s.t select *, date'2026-04-25' from given")
        spark.sql("merge into lake.s.t t using given g on t.id = g.id when matched then update set t.n = g.n")
        spark.sql("select d, count(*), sum(crc32(encode(name, 'utf-8'))), max(n) from lake.s.t group by d").collect()
        spark.sql("select *, row_number() over (partition by name order by id) k from given").collect()
        spark.sql("select * from given a join lake.s.t b on a.id = b.id where b.d > date'2026-04-01'").collect()
        for kind in ("parquet", "json", "csv"):
            path = f"{folder}/{kind}"
            rows.write.format(kind).save(path)
            spark.read.format(kind).load(path).count()
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main()
