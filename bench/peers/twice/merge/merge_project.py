"""A merged table, for one namespace."""

from pyspark.sql import DataFrame

from twice import Day, Merge, Pipeline, Table

bench = Pipeline("bench", grain=Day)
raw = Table("$raw", partition=Day("arrived"))
merged = Table("lake.$space.merged", key="id", write=Merge(version="version"))


@bench.step(reads={"raw": raw}, writes=merged, name="merged")
def newest(raw: DataFrame) -> DataFrame:
    """Take what arrived."""
    return raw.select("id", "version", "name")
