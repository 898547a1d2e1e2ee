"""Java on one machine: options that twice adds, and when it leaves the choice of a garbage collector alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.config import load
from twice.engine.spark import java_options, session

ROOM, COLLECTOR = "-XX:MetaspaceSize=256m", "-XX:+UseParallelGC"
VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))


def settings_of(folder: Path, spark: str) -> dict[str, str]:
    """Return what Spark is started with by a profile."""
    file = folder / "twice.toml"
    file.write_text(f'[ledger]\nurl = "sqlite:///ledger.db"\n[profiles.default.spark]\n{spark}\n')
    return session.settings(load(file))


def test_a_local_master_gets_the_parallel_collector_and_room_for_sparks_classes(tmp_path: Path) -> None:
    options = settings_of(tmp_path, '"spark.master" = "local[2]"')[java_options.EXTRA].split()
    assert options[1:] == [ROOM, COLLECTOR]
    assert options[0].startswith('"-Dlog4j2.configurationFile=')


def test_a_cluster_keeps_its_own_options(tmp_path: Path) -> None:
    made = settings_of(tmp_path, '"spark.master" = "spark://host:7077"')
    assert java_options.EXTRA not in made


def test_options_of_the_profile_replace_those_of_twice(tmp_path: Path) -> None:
    assert settings_of(tmp_path, f'"{java_options.EXTRA}" = "-Xss4m"')[java_options.EXTRA] == "-Xss4m"


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(
    "option", ["-Xss4m -XX:+UseG1GC", "-XX:-UseParallelGC", "-XX:+UseZGC -XX:+ZGenerational", "@java.txt"]
)
def test_a_collector_in_the_environment_stays(monkeypatch: pytest.MonkeyPatch, name: str, option: str) -> None:
    monkeypatch.setenv(name, option)
    assert java_options.added({}, []) == [ROOM]


@pytest.mark.parametrize(
    "option", ["-Xss4m", "-Dmail=a@b.example", "-XX:+UseStringDeduplication", "-XX:ParallelGCThreads=2"]
)
def test_other_options_choose_no_collector(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", option)
    assert java_options.added({java_options.DEFAULT: option}, []) == [ROOM, COLLECTOR]


def test_a_collector_in_the_default_options_of_the_profile_stays(tmp_path: Path) -> None:
    made = settings_of(tmp_path, f'"{java_options.DEFAULT}" = "-XX:+UseSerialGC"')
    assert COLLECTOR not in made[java_options.EXTRA]


@pytest.mark.parametrize("name", ["spark-defaults.conf", "spark-env.sh"])
def test_a_collector_in_the_files_of_spark_stays(tmp_path: Path, name: str) -> None:
    file = tmp_path / "conf" / name
    file.parent.mkdir()
    file.write_text("spark.driver.defaultJavaOptions -Xss4m\n")
    assert COLLECTOR in settings_of(tmp_path, "")[java_options.EXTRA]
    file.write_text("spark.driver.defaultJavaOptions -Xss4m -XX:+UseZGC\n")
    assert COLLECTOR not in settings_of(tmp_path, "")[java_options.EXTRA]


def test_a_file_that_cannot_be_read_may_choose_one(tmp_path: Path) -> None:
    (tmp_path / "spark-env.sh").mkdir()
    assert java_options.added({}, [tmp_path]) == [ROOM]
