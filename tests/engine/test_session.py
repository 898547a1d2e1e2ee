"""Sessions for steps and commands: opened in one place, so that any thread may have one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import twice
from twice.config import load
from twice.engine.spark import session
from twice.engine.spark.session import fresh


@pytest.mark.parametrize("active", [False, True])
def test_a_thread_without_an_active_session_gets_one_before_its_own_is_opened(active):
    happened: list[str] = []
    sessions = SimpleNamespace(
        getActiveSession=lambda: SimpleNamespace(isEmpty=lambda: not active),
        setActiveSession=lambda _: happened.append("activated"),
    )
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=None))))
    java.org.apache.spark.sql = SimpleNamespace(SparkSession=sessions)
    conf = SimpleNamespace(set=lambda name, value: happened.append(f"{name}={value}"))

    def opened() -> SimpleNamespace:
        happened.append("opened")
        return SimpleNamespace(conf=conf)

    spark = SimpleNamespace(_jvm=java, _jsparkSession=None, newSession=opened)
    fresh(spark, "Europe/Berlin")  # type: ignore[arg-type]
    expected = ["opened", "spark.sql.session.timeZone=Europe/Berlin"]
    assert happened == (expected if active else ["activated", *expected])


def test_sessions_are_opened_in_one_place():
    engine = Path(twice.__file__).parent / "engine"
    openers = [file.name for file in sorted(engine.rglob("*.py")) if "newSession()" in file.read_text()]
    assert openers == ["session.py"]


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21), ("24-ea", 24), ("25.0.1+8-LTS", 25)]
)
def test_the_version_of_java_is_read_from_its_release_file(tmp_path, monkeypatch, version, major):
    java = _java(tmp_path, monkeypatch, "exit 1")  # to start it is not needed
    (tmp_path / "release").write_text(f'IMPLEMENTOR="someone"\nJAVA_VERSION="{version}"\n')
    assert session.java_version() == (str(java), major)


@pytest.mark.parametrize("release", [None, "", "JAVA_VERSION=\n", b"\xff\xfe"])
def test_a_java_without_a_readable_release_file_is_asked(tmp_path, monkeypatch, release):
    java = _java(tmp_path, monkeypatch, "echo 'openjdk version \"17.0.2\" 2022-01-18' >&2")
    if release is not None:
        (tmp_path / "release").write_bytes(release.encode() if isinstance(release, str) else release)
    assert session.java_version() == (str(java), 17)


def test_a_program_that_names_no_version_is_no_java(tmp_path, monkeypatch):
    _java(tmp_path, monkeypatch, "echo hello")
    assert session.java_version() is None


def _java(home, monkeypatch, script):
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return java


OPTIONS = "spark.driver.extraJavaOptions"
VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@pytest.fixture
def nothing_set(monkeypatch):
    for name in (*VARIABLES, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def settings_of(folder: Path, spark: str = "") -> dict[str, str]:
    """Return what Spark is started with by a profile."""
    file = folder / "twice.toml"
    file.write_text(f'[ledger]\nurl = "sqlite:///ledger.db"\n[profiles.default.spark]\n{spark}\n')
    return session.settings(load(file))


def test_java_on_this_machine_has_room_for_sparks_classes_unless_a_user_says_how_much(tmp_path, nothing_set):
    room = "-XX:MetaspaceSize=256m"
    assert settings_of(tmp_path)[OPTIONS].endswith(f" {room}")
    assert room not in settings_of(tmp_path, '"spark.driver.defaultJavaOptions" = "-XX:MetaspaceSize=1g"')[OPTIONS]
    assert settings_of(tmp_path, f'"{OPTIONS}" = "-Xss4m"')[OPTIONS] == "-Xss4m"
    for name in VARIABLES:
        with nothing_set.context() as patch:
            patch.setenv(name, "-Xss4m -XX:MaxMetaspaceSize=200m")
            assert room not in settings_of(tmp_path)[OPTIONS]
    assert OPTIONS not in settings_of(tmp_path, '"spark.master" = "spark://host:7077"')


def test_spark_submit_decides_where_spark_runs_and_how_it_is_reached(tmp_path, nothing_set):
    placed = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions", OPTIONS)
    assert set(placed) <= set(settings_of(tmp_path))
    nothing_set.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not set(placed) & set(settings_of(tmp_path))
    assert set(placed) <= set(settings_of(tmp_path, '"spark.master" = "local[2]"'))
