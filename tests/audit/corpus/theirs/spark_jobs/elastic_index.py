import sys
from datetime import datetime

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

index = "products-%s" % sys.argv[1]
t0 = datetime.now()
spark = SparkSession.builder.appName("elastic-index").getOrCreate()

products = (
    spark.table("core.products")
    .where("is_listed")
    .withColumn("tags", F.sort_array(F.collect_list("tag").over(Window.partitionBy("product_id"))))
    .select("product_id", "title", "brand", "price", "tags")
    .distinct()
)

# an append with ids is an upsert in Elasticsearch
(
    products.write.format("org.elasticsearch.spark.sql")
    .option("es.nodes", "es01")
    .option("es.mapping.id", "product_id")
    .option("es.write.operation", "index")
    .mode("append")
    .save(index)
)

(
    products.select("product_id", "price")
    .write.format("mongodb")
    .option("database", "shop")
    .option("collection", "prices")
    .option("idFieldList", "product_id")
    .option("operationType", "replace")
    .mode("append")
    .save()
)
print("indexed in", datetime.now() - t0)
