"""Nothing that a file holds makes the audit raise, or wait: what cannot be read is told."""

from __future__ import annotations

import gc
import json
import sys
import sysconfig
import time
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig
from twice.audit.files import collect
from twice.audit.languages.sql.parsing import parsed, tokenized
from twice.audit.languages.sql.sources import SqlText
from twice.audit.running import audit_files

CONFIG = AuditConfig()
NAMES = st.sampled_from(["a.py", "a.sql", "models/a.sql", "a.ipynb", "dags/a.py"])
# Words that the front ends look at, in any order.
WORDS = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "INSERT INTO t",
        "MERGE INTO t USING s ON",
        "WHEN MATCHED THEN",
        "UPDATE SET",
        "DELETE FROM t",
        ";",
        "(",
        ")",
        ",",
        "'",
        '"',
        "`",
        "$$",
        "{{",
        "}}",
        "{%",
        "%}",
        "{% if is_incremental() %}",
        "{{ config(materialized='incremental') }}",
        "{{ this }}",
        "BEGIN",
        "END",
        "CASE",
        "CURRENT_DATE",
        "now()",
        "spark.sql(",
        "df.write",
        ".mode('append')",
        ".saveAsTable('t')",
        "def f(x):",
        "    ",
        "\n",
        "return",
        "f'{x}'",
        "lambda: 0",
        "[",
        "]",
        "for x in y:",
        "if x:",
        "else:",
        "class A:",
        "=",
        "+",
        "%s",
        ":x",
        "@x",
        "${x}",
        "GO",
        "DECLARE @x INT",
        "with DAG('d'):",
        "import x",
        "from x import *",
        "--",
        "/*",
        "*/",
        "#",
        "# twice: ok",
        "-- twice: ok TW301",
        "\\",
        "\x00",
        "é",
        "𝒳",
        "\u2028",
        "\r",
        "\t",
    ]
)


def audit(path, text):
    result = audit_text(path, text, CONFIG)
    for one in result.findings:
        assert "stumbled" not in one.message, one.message
        assert "could not follow" not in one.message, one.message
        assert one.line >= 1
        assert one.column >= 1


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, st.text(max_size=400))
def test_any_text_is_read(path, text):
    audit(path, text)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, st.lists(WORDS, max_size=60), st.sampled_from([" ", "\n", ""]))
def test_any_order_of_words_is_read(path, words, between):
    audit(path, between.join(words))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_real_job_with_a_piece_missing_is_read(data):
    corpus = sorted(
        path for path in (Path(__file__).parent / "corpus").rglob("*") if path.suffix in {".py", ".sql", ".ipynb"}
    )
    path = data.draw(st.sampled_from(corpus))
    text = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 400)))
    audit(path.name, text[:start] + text[end:])


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.text(max_size=10) | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["cells", "source", "cell_type", "metadata", "worksheets"]), inner)
        ),
    )
)
def test_any_json_is_read_as_a_notebook(value):
    audit("a.ipynb", json.dumps(value))


STRANGE = {
    "nested brackets": ("a.py", "x = " + "(" * 500 + "1" + ")" * 500),
    "nested lists": ("a.py", "x = " + "[" * 3000 + "]" * 3000),
    "a long sum": ("a.py", "now = 1\nx = " + "+".join(["now"] * 3000)),
    "a long chain": (
        "a.py",
        "x = spark.table('a')" + ".filter('b = 1')" * 1500 + "\nx.write.mode('append').saveAsTable('t')",
    ),
    "nested selects": ("a.sql", "SELECT * FROM (" * 300 + "SELECT 1" + ")" * 300),
    "a long condition": (
        "a.sql",
        "INSERT INTO t SELECT * FROM s WHERE " + " OR ".join(f"a = {n}" for n in range(3000)),
    ),
    "nested conditions": ("a.sql", "SELECT " + "(" * 800 + "1" + ")" * 800),
    "a huge line": ("a.sql", "INSERT INTO t VALUES " + ", ".join(f"({n}, 'x')" for n in range(20_000)) + ";"),
    "a huge literal": ("a.py", "x = '" + "y" * 500_000 + "'\nspark.sql(x)"),
    "functions that call each other": (
        "a.py",
        "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\nf(1)\nspark.sql(f(2))",
    ),
    "doubling calls": (
        "a.py",
        "".join(f"def f{n}(x):\n    f{n + 1}(x)\n    f{n + 1}(x)\n    f{n + 1}(x)\n" for n in range(30)) + "f0(1)",
    ),
    "an f-string in an f-string": ("a.py", "x = 1\nspark.sql(f'SELECT {f\"{x}\"} FROM t')"),
    "unclosed jinja": (
        "models/a.sql",
        "{{ config(materialized='incremental'\nselect 1 {% if is_incremental() %} where",
    ),
    "unclosed quote": ("a.sql", "INSERT INTO t SELECT 'a FROM s"),
    "tabs and form feeds": ("a.py", "\tif x:\n\x0c    y\n"),
    "only a byte order mark": ("a.py", "\ufeff"),
    "empty": ("a.sql", ""),
    "python 2": ("a.py", "print 'append'\nexec 'x'\n"),
    "many statements": ("a.sql", "INSERT INTO t SELECT 1;\n" * 1500),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_files_are_read_in_time(name, tmp_path):
    path, text = STRANGE[name]
    file = tmp_path / Path(path).name
    file.write_text(text, encoding="utf-8")
    started = time.process_time()
    audited = audit_files([file], AuditConfig(root=tmp_path), use_cache=False)
    assert time.process_time() - started < 25
    for one in audited.findings:
        assert "stumbled" not in one.message, one.message


@pytest.mark.parametrize(
    ("start", "end"), [("f(", ")"), ("CASE WHEN a THEN ", " END"), ("NOT ", "")], ids=["brackets", "case", "signs"]
)
def test_no_parser_is_asked_about_what_is_nested_beyond_reason(start, end):
    source = SqlText("SELECT " + start * 1_100 + "1" + end * 1_100)
    tokens = tokenized(source.text, "spark")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)  # a compiled parser knows no limit, and breaks
    try:
        with pytest.raises(RecursionError):
            parsed(source, "spark", tokens)
    finally:
        sys.setrecursionlimit(before)


def test_what_cannot_be_parsed_is_told_and_still_read_by_its_words():
    python = audit_text("a.py", 'print "x"\ndf.write.mode("append").saveAsTable("t")\n', CONFIG)
    assert {"TW000", "TW301"} <= {one.code for one in python.findings}
    sql = audit_text("a.sql", "INSERT INTO t SELECT ( FROM s WHERE d = CURRENT_DATE;;\n", CONFIG)
    assert {"TW000", "TW301"} <= {one.code for one in sql.findings}


def test_a_line_that_begins_with_a_percent_sign_is_no_magic():
    text = 'message = (\n    "loaded %s of %s"\n    % (1, 2)\n)\nspark.sql("INSERT INTO t SELECT * FROM s")\n'
    assert [(one.code, one.line) for one in audit_text("a.py", text, CONFIG).findings] == [("TW301", 5)]
    magic = '%run ./setup\nspark.sql("INSERT INTO t SELECT * FROM s")\n'
    assert [(one.code, one.line) for one in audit_text("a.py", magic, CONFIG).findings] == [("TW301", 2)]


def test_a_binary_file_and_a_huge_one_are_told(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "b.sql").write_bytes(b"-- x\n" * 1_200_000)
    (tmp_path / "c.py").write_bytes(b"x = '\xe9'\ndf.write.mode('append').saveAsTable('t')\n")
    audited = audit_files(sorted(tmp_path.iterdir()), AuditConfig(root=tmp_path), use_cache=False)
    assert [(one.path, one.code) for one in audited.findings] == [
        ("a.py", "TW000"),
        ("b.sql", "TW000"),
        ("c.py", "TW301"),
    ]


@pytest.mark.slow(reason="audits 120 files of the installed packages")
@pytest.mark.full
def test_installed_packages_are_read_without_a_stumble():
    folder = Path(sysconfig.get_paths()["purelib"])
    files = list(
        islice(
            (file for file in collect([folder], AuditConfig(root=folder)) if file.stat().st_size < 60_000), 0, None, 20
        )
    )[:120]
    audited = audit_files(files, AuditConfig(root=folder), use_cache=False)
    assert len(audited.results) == len(files)
    broken = [
        one.message
        for one in audited.findings
        if one.code == "TW000" and ("stumbled" in one.message or "follow" in one.message)
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("statement", "unreadable"),
    [
        ("INSERT INTO {table} {query}", False),
        ("INSERT INTO {table} (id, total) {query}", False),
        ("INSERT INTO core.totals {query}", False),
        ("INSERT INTO {table} (id, total) SELEC id FROM {query}", True),
    ],
)
def test_an_insert_whose_query_is_handed_in_is_readable(statement, unreadable):
    text = f'def load(hook, table, query):\n    hook.run(f"{statement}")\n'
    codes = {one.code for one in audit_text("load.py", text, AuditConfig()).findings}
    assert ("TW000" in codes) is unreadable
    assert "TW301" in codes


def test_one_process_forgets_the_trees_of_files_that_are_done(tmp_path):
    for number in range(40):
        (tmp_path / f"load_{number}.sql").write_text(
            "INSERT INTO core.orders SELECT id, amount FROM raw.orders;\n" * 20
        )
    kept: list[int] = []

    def count(_done: int, _total: int) -> None:
        kept.append(sum(isinstance(one, exp.Expression) for one in gc.get_objects()))

    audit_files(
        sorted(tmp_path.glob("*.sql")), AuditConfig(root=tmp_path), processes=1, use_cache=False, progress=count
    )
    assert kept[-1] <= 2 * kept[0] + 1000
