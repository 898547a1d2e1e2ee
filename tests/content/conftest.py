import pytest
@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession
    s=SparkSession.builder.master("local[2]").config("spark.ui.enabled","false").config("spark.ui.showConsoleProgress","false").config("spark.sql.shuffle.partitions","2").config("spark.sql.session.timeZone","UTC").getOrCreate()
    s.sparkContext.setLogLevel("OFF")
    yield s
    s.stop()
