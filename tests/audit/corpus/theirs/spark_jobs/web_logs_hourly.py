# -*- coding: utf-8 -*-
# parse apache logs of one hour and store them by day
# cron: 10 * * * *  spark-submit web_logs_hourly.py 2024-03-01 13
import re
import sys

from pyspark.sql import Row, SparkSession

LINE = re.compile(r'^(\S+) (\S+) (\S+) \[([\w:/]+\s[+\-]\d{4})\] "(\S+)\s?(\S+)?\s?(\S+)?" (\d{3}) (\S+)')


def parse(line):
    m = LINE.match(line)
    if m is None:
        return Row(host=None, path=None, status=None, size=None, bad=line)
    size = 0 if m.group(9) == "-" else int(m.group(9))
    return Row(host=m.group(1), path=m.group(6), status=int(m.group(8)), size=size, bad=None)


def main(day, hour):
    spark = SparkSession.builder.appName("weblogs_%s_%s" % (day, hour)).getOrCreate()
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    raw = spark.sparkContext.textFile("hdfs:///logs/apache/%s/%s/*.log.gz" % (day, hour))
    rows = raw.map(parse)
    df = spark.createDataFrame(rows)
    good = df.filter(df.bad.isNull()).drop("bad")
    bad = df.filter(df.bad.isNotNull()).count()
    print("unparsable lines: %d" % bad)

    good.createOrReplaceTempView("hour_log")
    out = spark.sql("""
        SELECT host, path, status, size, '%s' AS log_day, %s AS log_hour
        FROM hour_log
    """ % (day, hour))
    # one partition per day
    out.write.mode("overwrite").partitionBy("log_day").parquet("hdfs:///warehouse/weblogs")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
