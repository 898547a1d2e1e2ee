"""`--fix`: what counts as safe, and that only the repaired characters of a file change."""

from __future__ import annotations

import pytest

from twice.audit.applying import apply
from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig

HEAD = "import sys\n\nday = sys.argv[1]\nhour = sys.argv[2]\n"
DYNAMIC = '.mode("overwrite").option("partitionOverwriteMode", "dynamic")'


def fixes(path, text, code, **options):
    found = audit_text(path, text, AuditConfig(**options)).findings
    return [one.fix and ("safe" if one.fix.safe else "unsafe") for one in found if one.code == code]


def fixed(file, text, code, *, unsafe=False):
    """Repair the findings of one code in a file and return its bytes."""
    found = audit_text(file.name, text, AuditConfig()).findings
    apply(file, [one for one in found if one.code == code], unsafe=unsafe)
    return file.read_bytes()


def append(rows, write='.write.mode("append").partitionBy("ds").parquet("/lake/b")', around=""):
    return f"{HEAD}{around}{rows}{write}\n"


WHOLE = """spark.table("x").where(f"ds = '{day}'")"""


FUNCTION = f"{HEAD}def save(source):\n    " + append(WHOLE).removeprefix(HEAD) + "\n\n"


@pytest.mark.parametrize("run", ["save(1)\n", 'PythonOperator(task_id="a", python_callable=save)\n', ""])
def test_a_function_that_runs_once_is_safe_to_repair(run):
    assert fixes("job.py", FUNCTION + run, "TW301") == ["safe"]


def test_an_append_of_a_whole_partition_is_safe_to_repair():
    assert fixes("job.py", append(WHOLE), "TW301") == ["safe"]
    delta = '.write.format("delta").mode("append").partitionBy("ds").saveAsTable("core.b")'
    assert fixes("job.py", append(WHOLE, delta), "TW301") == ["safe"]


@pytest.mark.parametrize(
    "text",
    [
        append("""spark.table("x").where(f"ds = '{day}' and hr = '{hour}'")"""),
        append("""spark.table("x").where(f"ds = '{day}'").where("country = 'DE'")"""),
        append(f"{WHOLE}.limit(100)"),
        append(f"{WHOLE}.sample(0.1, seed=3)"),
        append(f'{WHOLE}.join(spark.table("y"), "id")'),
        append(f'{WHOLE}.withColumn("ds", F.col("sent"))'),
        append("""spark.read.parquet(f"/in/{hour}").where(f"ds = '{day}'")"""),
        append(WHOLE) + append('spark.table("y")').removeprefix(HEAD),
        append(WHOLE.replace('"x"', "source"), around='for source in ["x", "y"]:\n    '),
        HEAD
        + "def save(source):\n"
        + """    rows = spark.table("x" if source else "y").where(f"ds = '{day}'")\n"""
        + '    rows.write.mode("append").partitionBy("ds").parquet("/lake/b")\n\n\nsave(1)\nsave(0)\n',
        FUNCTION + "for one in (1, 2):\n    save(one)\n",
        FUNCTION + "pool.map(save, [1, 2])\n",
        FUNCTION + "def run(one):\n    save(one)\n\n\nrun(1)\nrun(2)\n",
    ],
    ids=[
        "hour", "country", "limit", "sample", "join", "other day", "path", "two writers", "loop", "two calls",
        "call in a loop", "mapped", "called by a caller",
    ],
)  # fmt: skip
def test_an_append_of_a_part_of_a_partition_is_not_safe_to_repair(text):
    found = fixes("job.py", text, "TW301")
    assert found
    assert "safe" not in found


def test_save_as_table_is_not_repaired_because_it_makes_the_table_anew():
    table = '.write.mode("append").partitionBy("ds").saveAsTable("core.b")'
    assert fixes("job.py", append(WHOLE, table), "TW301") == [None]
    assert fixes("job.py", append(WHOLE, table.replace("append", "overwrite")), "TW303") == [None]


def insert(where):
    return f"INSERT OVERWRITE TABLE core.b PARTITION (ds)\nSELECT id, ds FROM raw.a WHERE {where};\n"


def test_a_clock_that_names_the_day_becomes_the_day_that_is_given():
    text = insert("ds = current_date()") + "SELECT * FROM log WHERE ds = '${day}';\n"
    assert fixes("job.sql", text, "TW101", dialect="spark") == ["safe"]


@pytest.mark.parametrize(
    "where",
    [
        "ds >= '${start_date}' AND ds < current_date()",
        "ds = current_date() AND loaded >= '${start_date}'",
        "ds < current_date() AND country = '${day}'",
        "ds = current_date() AND sent = '${day}'",
    ],
)
def test_a_clock_beside_a_bound_is_not_safe_to_repair(where):
    assert fixes("job.sql", insert(where), "TW101", dialect="spark") == ["unsafe"]


@pytest.mark.parametrize("name", ["startDate", "enddate", "until", "window_end_ts", "fromDay"])
def test_an_end_of_a_window_is_not_the_day(name):
    text = insert("ds = current_date()") + f"SELECT * FROM log WHERE ds = '${{{name}}}';\n"
    assert "safe" not in fixes("job.sql", text, "TW101", dialect="spark")


def test_the_end_of_a_window_does_not_become_its_start():
    text = (
        "import argparse, datetime\n"
        'p = argparse.ArgumentParser(); p.add_argument("--start-date"); args = p.parse_args()\n'
        "end = datetime.date.today()\n"
        """df = spark.table("raw.a").where(f"ds >= '{args.start_date}' and ds < '{end}'")\n"""
        'df.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("ds").parquet("/b")\n'
    )
    assert fixes("job.py", text, "TW101") == ["unsafe"]


CREATE = "CREATE TABLE core.b (id INT);\n"
MERGE = "MERGE INTO core.b t USING a s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);\n"


def test_a_table_that_is_merged_into_is_created_if_it_is_not_there():
    assert fixes("job.sql", CREATE + MERGE, "TW314", dialect="snowflake") == ["safe"]


def test_a_loud_failure_is_not_turned_into_doubled_rows():
    assert fixes("job.sql", f"{CREATE}INSERT INTO core.b SELECT id FROM a;\n", "TW314", dialect="spark") == ["unsafe"]


@pytest.mark.parametrize("dialect", ["tsql", "oracle"])
def test_if_not_exists_is_not_written_where_it_is_no_sql(dialect):
    assert fixes("job.sql", CREATE + MERGE, "TW314", dialect=dialect) == [None]


def test_if_not_exists_is_not_written_for_a_driver_of_sql_server():
    text = (
        'import pyodbc\n\ncursor = pyodbc.connect("x").cursor()\n'
        'cursor.execute("CREATE TABLE dbo.b (id int)")\ncursor.execute("INSERT INTO dbo.b SELECT id FROM a")\n'
    )
    assert fixes("job.py", text, "TW314") in ([None], [])


def test_the_create_of_the_statement_is_repaired_and_not_another_on_its_line(tmp_path):
    text = (
        'q = "CREATE TABLE note"; spark.sql("CREATE TABLE core.b (id int)")\nspark.sql("INSERT INTO core.b SELECT 1")\n'
    )
    file = tmp_path / "job.py"
    file.write_text(text)
    assert b'q = "CREATE TABLE note"; spark.sql("CREATE TABLE IF NOT EXISTS core.b' in fixed(
        file, text, "TW314", unsafe=True
    )


@pytest.mark.parametrize(
    ("encoding", "mark", "end"),
    [
        ("utf-8", b"", "\n"),
        ("utf-8", b"", "\r\n"),
        ("utf-8", b"", "\r"),
        ("utf-8", b"\xef\xbb\xbf", "\n"),
        ("latin-1", b"", "\n"),
        ("utf-16-le", b"\xff\xfe", "\r\n"),
        ("utf-16-be", b"\xfe\xff", "\n"),
    ],
)
def test_a_repair_changes_nothing_else_in_the_file(tmp_path, encoding, mark, end):
    before = f"-- für Bücher{end}" + (CREATE + MERGE).replace("\n", end) + "-- mixed\r\n-- ends\n"
    file = tmp_path / "job.sql"
    file.write_bytes(mark + before.encode(encoding))
    after = before.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
    assert fixed(file, before, "TW314") == mark + after.encode(encoding)
