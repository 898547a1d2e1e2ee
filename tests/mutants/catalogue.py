"""The mutants: an edit of the shop's pipeline each, what is wrong with it, and who must find it.

`caught` is a check of `twice verify`, or `refused`: then the run itself refuses the step, before anything is published.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTRACT = "contract"
REFUSED = "refused"


@dataclass(frozen=True)
class Mutant:
    """One edit of examples/shop/pipeline.py."""

    name: str
    old: str
    new: str
    caught: str
    steps: tuple[str, ...] = ("orders",)


_NEWEST = '        .select("order_date", "order_id", "newest.*")\n    )'
_SUMS = '.agg(F.count("*").alias("orders"), F.sum("amount_usd").alias("revenue_usd"))'
_REVENUE = ("orders", "customers", "revenue")
_GATES = 'gates=[gates.range("revenue_usd", min=0), gates.unique("revenue_sk")],'
_DEDUP = """    newest = F.max(F.struct("updated_at", "ordered_at", "customer_id", "status", "amount_usd"))
    return (
        deliveries.withColumn("order_date", F.to_date("ordered_at"))
        .groupBy("order_date", "order_id")
        .agg(newest.alias("newest"))
        .select("order_date", "order_id", "newest.*")
    )"""
_PLAIN = '["order_date", "order_id", "updated_at", "ordered_at", "customer_id", "status", "amount_usd"]'
_CUSTOMERS = 'return versions.select("customer_id", "email", "region", "updated_at")'


def _column(name: str, expression: str) -> str:
    return f'{_NEWEST}.withColumn("{name}", {expression})'


def _late(expression: str) -> str:
    """Replace the choice of the newest delivery."""
    return f'    rows = deliveries.withColumn("order_date", F.to_date("ordered_at"))\n    return {expression}'


MUTANTS = (
    Mutant("append instead of overwrite", _DEDUP,
           f'{_late(f"rows.select({_PLAIN})")}'.replace("return ", 'rows.writeTo("lake.core.fct_orders").append()\n    return '),
           REFUSED),
    Mutant("now() instead of the window", _NEWEST, _column("loaded", "F.current_timestamp()"), REFUSED),
    Mutant("a date literal of the clock", _NEWEST, _column("loaded", 'F.expr("date\'today\'")'), REFUSED),
    Mutant("datetime.now() captured in Python", _NEWEST, _column("loaded", "F.lit(datetime.now())"), REFUSED),
    Mutant("the clock of a library, captured in Python", _NEWEST, _column("loaded", "F.lit(company.now())"), "clock"),
    Mutant("uuid() instead of a hash", '.withColumn("revenue_sk", key_of("order_date", "region"))',
           '.withColumn("revenue_sk", F.expr("uuid()"))', REFUSED, _REVENUE),
    Mutant("a library's new id instead of a hash", '.withColumn("revenue_sk", key_of("order_date", "region"))',
           '.withColumn("revenue_sk", F.udf(company.new_id)("region"))', "deterministic", _REVENUE),
    Mutant("a number for each row", _NEWEST, _column("n", "F.monotonically_increasing_id()"), REFUSED),
    Mutant("the task that made the row", _NEWEST, _column("n", "F.spark_partition_id()"), REFUSED),
    Mutant("the file that held the row", _DEDUP,
           _late('rows.withColumn("file", F.input_file_name()).groupBy("order_date", "order_id").agg(F.max(F.struct("updated_at", "ordered_at", "customer_id", "status", "amount_usd", "file")).alias("newest")).select("order_date", "order_id", "newest.*")'),
           REFUSED),
    Mutant("chance", _NEWEST, _column("n", "F.rand()"), REFUSED),
    Mutant("chance of a library", _NEWEST, _column("n", "F.lit(company.noise())"), "run-twice"),
    Mutant("the number of the call", _NEWEST, _column("n", "F.lit(company.call_number())"), "run-twice"),
    Mutant("any of the deliveries", _DEDUP,
           _late(f'rows.dropDuplicates(["order_date", "order_id"]).select({_PLAIN})'), "deterministic"),
    Mutant("the first of the deliveries", _DEDUP,
           _late('rows.groupBy("order_date", "order_id").agg(*(F.first(name).alias(name) for name in ("updated_at", "ordered_at", "customer_id", "status", "amount_usd")))'),
           "deterministic"),
    Mutant("row_number without an order that decides", _DEDUP,
           _late(f'rows.withColumn("n", F.row_number().over(Rows.partitionBy("order_date", "order_id").orderBy("ordered_at"))).where("n = 1").select({_PLAIN})'),
           "deterministic"),
    Mutant("collect_list without an order", _SUMS, _SUMS[:-1] + ', F.collect_list("order_id").alias("ids"))',
           "deterministic", _REVENUE),
    Mutant("limit", _NEWEST, f"{_NEWEST}.limit(20)", "deterministic"),
    Mutant("sums of floats", _SUMS, _SUMS.replace('F.sum("amount_usd")', 'F.sum(F.col("amount_usd").cast("double") / 3)'),
           "deterministic", _REVENUE),
    Mutant("a UDF that reads the clock", _NEWEST, _column("n", 'F.udf(lambda _: time.time(), "double")("order_id")'), REFUSED),
    Mutant("a UDF that reads a library's clock", _NEWEST,
           _column("loaded", 'F.udf(lambda _: company.today_text())("order_id")'), "clock"),
    Mutant("a UDF that knows the machine's time zone", _NEWEST,
           _column("hour", 'F.udf(lambda at: company.hour_here(at), "int")(F.unix_timestamp("ordered_at"))'), "clock"),
    Mutant("a setting of the environment", _NEWEST, _column("by", 'F.lit(os.environ.get("USER", ""))'), REFUSED),
    Mutant("a setting that a library reads", _NEWEST, _column("by", 'F.lit(company.environment("USER"))'), "environment"),
    Mutant("the working directory", _NEWEST, _column("by", "F.lit(company.folder())"), "environment"),
    Mutant("Python's hash", _NEWEST, _column("h", 'F.udf(company.hashed, "bigint")(F.col("order_id").cast("string"))'),
           "environment"),
    Mutant("the partition from the clock", '.withColumn("order_date", F.to_date("ordered_at"))',
           '.withColumn("order_date", F.to_date(F.lit(company.today_text())))', REFUSED),
    Mutant("a rank over the whole window", _NEWEST,
           _column("rank", 'F.rank().over(Rows.orderBy("order_id"))'), "separable"),
    Mutant("the first result stays", "    write=Overwrite(),\n    lateness=days(3),",
           '    write=InsertOnly(on_conflict="keep"),\n    lateness=days(3),', "late"),
    Mutant("a merge whose version decides nothing", _CUSTOMERS,
           'return versions.groupBy("customer_id").agg(F.count("*").alias("versions"), F.max("region").alias("region"), F.max("email").alias("email"), F.lit(0).alias("updated_at"))',
           REFUSED, ("customers",)),
    Mutant("columns by position", _CUSTOMERS,
           'return versions.withColumnsRenamed(dict(zip(versions.columns, ["customer_id", "email", "region", "updated_at", "x"]))).select("customer_id", "email", "region", "updated_at")',
           "schema", ("customers",)),
    Mutant("it cannot handle an empty day", _NEWEST,
           _column("first", 'F.lit(deliveries.agg(F.min("order_id")).first()[0] + 0)'), "empty"),
    Mutant("a gate without bounds", _GATES, _GATES.replace("min=0", "min=-(10**12)").replace("gates=[", "gates=[gates.row_count(min=0), "),
           "gates", _REVENUE),
    Mutant("a gate that says yes", _GATES, _GATES.replace("gates=[", "gates=[gates.check(lambda rows: True), "), "gates", _REVENUE),
    Mutant("a dropped gate", _GATES, 'gates=[gates.unique("revenue_sk")],', CONTRACT, _REVENUE),
    Mutant("an effect that says when", 'if chat := os.environ.get("SHOP_CHAT_URL"):',
           '''@shop.effect(after=fct_orders, to=Webhook("http://127.0.0.1:9/hook", marker="{key}"), on_unknown="ask")
def tell(rows: DataFrame) -> str:
    """Post a line."""
    return f"{rows.count()} orders at {company.now()}"


if chat := os.environ.get("SHOP_CHAT_URL"):''', "effects"),
)  # fmt: skip
HEADER = (
    "import os\n",
    "import os\nimport time\nfrom datetime import datetime\n\nimport company\nfrom pyspark.sql import Window as Rows\n"
    "from twice import InsertOnly\n",
)
