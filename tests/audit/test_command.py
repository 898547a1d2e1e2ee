"""`twice audit` and `twice rule` as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from twice.audit.rules import rules
from twice.cli.app import run_command

UNSAFE = 'rows = spark.table("raw.x")\nrows.write.mode("append").saveAsTable("core.orders")\n'
SAFE = 'rows = spark.table("raw.x")\nrows.write.mode("overwrite").saveAsTable("core.orders")\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jobs").mkdir()
    return tmp_path


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = run_command(["audit", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def write(name, text):
    path = Path("jobs") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_nothing_found_is_exit_0_and_something_is_1(call):
    write("safe.py", SAFE)
    code, out, err = call("jobs")
    assert (code, out) == (0, "")
    assert "nothing found in 1 file" in err
    write("unsafe.py", UNSAFE)
    code, out, _ = call("jobs")
    assert code == 1
    assert "jobs/unsafe.py:2:" in out
    assert "TW301 error" in out
    assert 'rows.write.mode("append")' in out
    assert "instead: " in out


def test_fail_on_decides_the_exit_code(call):
    write("unsafe.py", UNSAFE)
    assert call("jobs", "--fail-on", "error")[0] == 1
    assert call("jobs", "--select", "TW1")[0] == 0
    assert call("jobs", "--ignore", "TW3")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no file or folder nowhere"),
        (["jobs", "--select", "TW999"], "is neither the code of a rule"),
        (["jobs", "--select", "banana"], "is neither the code of a rule"),
        (["jobs", "--dialect", "klingon"], "is not a dialect"),
        (["jobs", "--baseline", "none.json"], "there is no baseline none.json"),
        (["jobs", "--format", "html"], "--format html is for --rank"),
        (["jobs", "--diff", "HEAD"], "git"),
        (["jobs/readme.txt"], "is not Python, SQL or a notebook"),
        (["jobs", "--rank", "--format", "junit"], "--rank has no junit form"),
    ],
)
def test_bad_input_is_exit_2_with_a_sentence(call, arguments, says):
    write("unsafe.py", UNSAFE)
    write("readme.txt", "hello")
    code, _, err = call(*arguments)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


def test_a_broken_configuration_is_exit_2(call):
    write("safe.py", SAFE)
    Path("twice.toml").write_text("[audit]\nselect = 3\n")
    code, _, err = call("jobs")
    assert code == 2
    assert "select" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_told(call):
    path = write("secret.py", UNSAFE)
    path.chmod(0)
    assert call("jobs/secret.py")[0] == 2
    code, out, _ = call("jobs")
    assert code == 1
    assert "cannot be read" in out


def test_json(call):
    write("unsafe.py", UNSAFE)
    code, out, _ = call("jobs", "--format", "json")
    data = json.loads(out)
    assert code == 1
    assert (data["files"], data["errors"]) == (1, 1)
    (found,) = data["findings"]
    assert (found["code"], found["line"], found["path"]) == ("TW301", 2, "jobs/unsafe.py")
    assert found["instead"]
    assert found["title"] == rules()["TW301"].title


def test_sarif_names_rule_and_place(call):
    write("unsafe.py", UNSAFE)
    data = json.loads(call("jobs", "--format", "sarif")[1])
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "TW301"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "jobs/unsafe.py"
    assert place["region"]["startLine"] == 2
    assert result["level"] == "error"


def test_github_annotations_stay_on_one_line_each(call):
    write("unsafe.py", UNSAFE)
    (line,) = call("jobs", "--format", "github")[1].splitlines()
    assert line.startswith("::error file=jobs/unsafe.py,line=2,")
    assert "%0A" in line


def test_junit_is_xml_with_failures(call):
    write("unsafe.py", UNSAFE)
    write("safe.py", SAFE)
    suite = ET.fromstring(call("jobs", "--format", "junit")[1])  # noqa: S314 - our own output
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite.find("testcase/failure").get("type") == "TW301"


def test_markdown_and_statistics(call):
    write("unsafe.py", UNSAFE)
    assert "| 2 | TW301" in call("jobs", "--format", "markdown")[1]
    code, out, _ = call("jobs", "--statistics")
    assert code == 1
    assert out.split()[:2] == ["1", "TW301"]


def test_output_to_a_file(call):
    write("unsafe.py", UNSAFE)
    code, out, _ = call("jobs", "--format", "json", "--output", "found.json")
    assert (code, out) == (1, "")
    assert json.loads(Path("found.json").read_text())["errors"] == 1
    assert call("jobs", "--output", "no/such/folder/x.txt")[0] == 2


def test_rank_in_all_its_forms(call):
    write("unsafe.py", UNSAFE)
    write("safe.py", SAFE)
    assert "1 of 2 jobs corrupt data" in call("jobs", "--rank")[1]
    assert "`jobs/unsafe.py`" in call("jobs", "--rank", "--format", "markdown")[1]
    assert "<code>jobs/unsafe.py</code>" in call("jobs", "--rank", "--format", "html")[1]
    assert json.loads(call("jobs", "--rank", "--format", "json")[1])["jobs"][0]["path"] == "jobs/unsafe.py"


def test_a_baseline_hides_what_is_known_also_after_lines_have_moved(call):
    path = write("unsafe.py", UNSAFE)
    assert call("jobs", "--write-baseline", "known.json")[0] == 0
    path.write_text("import os\n\n\n" + UNSAFE)
    code, out, err = call("jobs", "--baseline", "known.json")
    assert (code, out) == (0, "")
    assert "1 in the baseline" in err
    path.write_text(UNSAFE + 'rows.write.mode("append").saveAsTable("core.customers")\n')
    code, out, _ = call("jobs", "--baseline", "known.json")
    assert code == 1
    assert "core.customers" in out
    assert "core.orders" not in out
    path.write_text(SAFE)
    assert "no longer needed" in call("jobs", "--baseline", "known.json")[2]


def test_a_baseline_that_is_none_is_exit_2(call):
    write("unsafe.py", UNSAFE)
    Path("known.json").write_text("{}")
    code, _, err = call("jobs", "--baseline", "known.json")
    assert code == 2
    assert "is not a baseline" in err


def git(*arguments):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        check=True,
        capture_output=True,
    )


def test_diff_shows_changed_lines_only(call):
    path = write("unsafe.py", UNSAFE)
    git("init", "-q")
    git("add", "jobs")
    git("commit", "-qm", "start")
    assert call("jobs", "--diff", "HEAD")[:2] == (0, "")
    path.write_text(UNSAFE + 'rows.write.mode("append").saveAsTable("core.customers")\n')
    write("new.py", UNSAFE)
    code, out, _ = call("jobs", "--diff", "HEAD")
    assert code == 1
    assert "jobs/unsafe.py:3" in out
    assert "jobs/unsafe.py:2" not in out
    assert "jobs/new.py:2" in out
    assert call("jobs", "--diff", "no-such-commit")[0] == 2


def test_fix_repairs_what_is_safe_and_leaves_the_rest(call):
    fill = "DELETE FROM core.orders;\nINSERT INTO core.orders SELECT id, amount FROM raw.orders;\n"
    path = write("ddl.sql", "CREATE TABLE core.orders (id INT, amount INT);\n" + fill)
    _, _, err = call("jobs", "--select", "TW314", "--fix")
    assert path.read_text() == "CREATE TABLE IF NOT EXISTS core.orders (id INT, amount INT);\n" + fill
    assert "repaired 1" in err
    assert call("jobs", "--select", "TW314")[0] == 0


def test_an_append_becomes_an_overwrite_of_its_partition(call):
    text = (
        "from pyspark.sql import functions as F\n\n\n"
        "def main(spark, day):\n"
        '    rows = spark.table("raw.x").where(F.col("day") == F.lit(day))\n'
        '    rows.write.mode("append").partitionBy("day").parquet("/lake/orders")\n'
    )
    path = write("job.py", text)
    assert call("jobs", "--select", "TW301")[0] == 1
    call("jobs", "--select", "TW301", "--fix")
    assert '.mode("overwrite").option("partitionOverwriteMode", "dynamic")' in path.read_text()
    assert call("jobs", "--select", "TW301,TW303")[0] == 0


def test_the_clock_becomes_the_parameter_only_on_request(call):
    query = "SELECT * FROM s WHERE order_date >= CURRENT_DATE - 1 AND order_date < '${day}';\n"
    text = f"INSERT OVERWRITE t PARTITION (d = '${{day}}')\n{query}"
    path = write("job.sql", text)
    call("jobs", "--select", "TW101", "--fix")
    assert path.read_text() == text
    call("jobs", "--select", "TW101", "--unsafe-fixes")
    assert "CAST('${day}' AS DATE) - 1" in path.read_text()


def test_the_cache_gives_the_same_and_notices_changes(call):
    path = write("unsafe.py", UNSAFE)
    first = call("jobs", "--format", "json")
    assert list((Path("cache") / "twice").glob("audit-*.json"))
    assert call("jobs", "--format", "json") == first
    path.write_text(SAFE)
    assert call("jobs")[0] == 0


def test_the_cache_notices_a_changed_helper(call):
    write("helper.py", 'def save(df, mode="append"):\n    df.write.mode(mode).saveAsTable("core.orders")\n')
    write("job.py", 'from helper import save\n\nsave(spark.table("raw.x"))\n')
    found = json.loads(call("jobs/job.py", "--format", "json")[1])["findings"]
    assert [(one["code"], one["line"]) for one in found] == [("TW313", 3)] or [one["line"] for one in found] == [3]
    write("helper.py", 'def save(df, mode="overwrite"):\n    df.write.mode(mode).saveAsTable("core.orders")\n')
    assert json.loads(call("jobs/job.py", "--format", "json")[1])["findings"] == []


def test_a_spoilt_cache_is_no_error(call):
    write("unsafe.py", UNSAFE)
    call("jobs")
    (file,) = (Path("cache") / "twice").glob("audit-*.json")
    file.write_text("{ not json")
    assert call("jobs")[0] == 1


def test_many_files_in_processes_give_the_same_as_one(call):
    for number in range(40):
        write(f"job_{number:02}.py", UNSAFE if number % 2 else SAFE)
    one = call("jobs", "--no-cache", "--processes", "1")[1]
    assert call("jobs", "--no-cache", "--processes", "2")[1] == one
    assert one.count("TW301") == 20


def test_rule_explains_and_lists(capsys):
    assert run_command(["rule", "TW301"]) == 0
    assert rules()["TW301"].title in capsys.readouterr().out
    assert run_command(["rule"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rules())
    assert run_command(["rule", "tw3", "--json"]) == 0
    assert all(one["code"].startswith("TW3") for one in json.loads(capsys.readouterr().out))
    assert run_command(["rule", "TW998"]) == 2
    assert "there is no rule TW998" in capsys.readouterr().err


def test_the_audit_imports_nothing_heavy():
    write("unsafe.py", UNSAFE)
    code = (
        "import sys\nfrom twice.cli.app import run_command\nrun_command(['audit', 'jobs', '--no-cache'])\n"
        "heavy = {'pyspark', 'py4j', 'sqlalchemy', 'alembic', 'pandas', 'pyarrow', 'numpy', 'yaml'}\n"
        "heavy |= {'twice.engine', 'twice.store.protocol', 'twice.ledger.db.schema'}\n"
        # The configuration knows the names of the store types, and nothing of the stores.
        "light = {'twice.store.registry', 'twice.store.store_type'}\n"
        "heavy |= {name for name in sys.modules if name.startswith('twice.store.')} - light\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_ctrl_c_ends_with_130_and_a_sentence():
    for number in range(300):
        write(f"job_{number}.py", UNSAFE * 60)
    code = (
        "import os, signal, sys, threading\nfrom twice.cli.app import run_command\n"
        "threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "sys.exit(run_command(['audit', 'jobs', '--no-cache', '--format', 'json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode in {130, 1}, done.stderr  # 1: this machine was done before
    assert "Traceback" not in done.stderr
