from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window
import sys

spark = SparkSession.builder.appName("survey").getOrCreate()
wave = sys.argv[1]
path = "s3a://surveys/{}/".format(wave)

answers = spark.read.json(path + "answers")
questions = spark.read.json(path + "questions")

# respondent number, used by all downstream tables
respondents = answers.select("panel", "birth_year").distinct()
respondents = respondents.rdd.zipWithIndex().map(lambda t: (t[1], t[0]["panel"], t[0]["birth_year"])).toDF(
    ["respondent_no", "panel", "birth_year"]
)

answer_no = Window.orderBy("submitted_at")
answers = answers.withColumn("answer_id", F.row_number().over(answer_no))

out = answers.join(questions, "question_id").join(respondents, ["panel", "birth_year"])
out = out.withColumn("answer_hash", F.sha2(F.concat_ws("||", "question_id", "panel", "birth_year", "answer"), 256))
out.write.mode("overwrite").parquet(path + "clean")

counts = {r["question_id"]: r["n"] for r in out.groupBy("question_id").agg(F.count("*").alias("n")).collect()}
for q in sorted(counts):
    print(q, counts[q])
