from pyspark.sql import SparkSession
from pyspark.sql.functions import monotonically_increasing_id, trim, lower, coalesce, lit, current_timestamp

"""
    builds the customer dimension out of CRM and web shop accounts
"""

spark = SparkSession \
    .builder \
    .appName("CustomerDim") \
    .enableHiveSupport() \
    .getOrCreate()

crm = spark.table("raw.crm_accounts").select("account_no", "name", "mail", "country")
shop = spark.table("raw.shop_users").select("user_id", "full_name", "email", "country_code")

crm = crm.withColumnRenamed("mail", "email") \
         .withColumn("email", lower(trim(crm.mail)))
shop = shop.withColumn("email", lower(trim(shop.email)))

joined = crm.join(shop, on="email", how="full_outer")

dim = joined.select(
    monotonically_increasing_id().alias("customer_sk"),
    coalesce(joined.name, joined.full_name).alias("customer_name"),
    "email",
    coalesce(joined.country, joined.country_code, lit("??")).alias("country"),
    joined.account_no,
    joined.user_id,
)

dim = dim.withColumn("dw_load_ts", current_timestamp())

# unique per email, two accounts per mail are rare
dim = dim.dropDuplicates(["email"])

dim.write \
   .mode("overwrite") \
   .format("orc") \
   .saveAsTable("dwh.dim_customer")

print("dim_customer has", spark.table("dwh.dim_customer").count(), "rows")
