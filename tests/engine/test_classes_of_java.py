"""What a real Java does with its class-data archive: it takes the classes from it, or starts as if there were none."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from twice import config as configuration
from twice.engine.spark import acceptance, classes, jars, session
from twice.store import jdbc_drivers

MAIN = "org.sqlite.util.OSInfo"  # prints the name of the platform
FROM_ARCHIVE = "source: shared objects file (top)"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Keep archives apart, and find the fetched jars where they are."""
    for variable in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "cache/twice").mkdir(parents=True)
    (tmp_path / "cache/twice/ivy").symlink_to(jars.cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def ran(settings: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    """Let Java run a class of our jar, started with these settings."""
    found = session.java_version()
    assert found is not None
    options = shlex.split(settings["spark.driver.extraJavaOptions"])
    command = [found[0], *options, *more, "-cp", settings["spark.driver.extraClassPath"], MAIN]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def with_a_hole(file: Path) -> None:
    """Leave zeros among the classes of an archive, as a power failure may."""
    file.chmod(0o600)
    tenth = file.stat().st_size // 40960 * 4096
    with file.open("r+b") as opened:
        opened.seek(tenth)
        opened.write(b"\0" * tenth)


def loaded(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of Java's log that says where it found the main class."""
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if f"] {MAIN} " in line)


def test_java_takes_classes_from_an_archive_that_fits_and_starts_without_one_that_does_not(tmp_path):
    found = session.java_version()
    assert found is not None
    jar = tmp_path / "driver.jar"
    shutil.copy(jars.fetched(jdbc_drivers.SQLITE), jar)
    settings = {"spark.master": "local[1]", "spark.jars": str(jar)}
    archive = classes.archive(settings, Path(found[0]), Path(_find_spark_home()))
    with classes.workplace() as place:
        ran(archive.making(place / "archive.jsa"))
        file = classes.keep(archive, place / "archive.jsa")
    log = "-Xlog:class+load"

    assert FROM_ARCHIVE in loaded(ran(archive.using(file), log))
    strictly = ({**settings, **archive.using(file)}, Path(found[0]), Path(_find_spark_home()))
    assert acceptance.refusal(*strictly) == ""

    whole = file.read_bytes()
    with_a_hole(file)
    assert acceptance.refusal(*strictly)
    dead = ran(archive.using(file), f"-XX:ErrorFile={tmp_path}/error.log", "-XX:-CreateCoredumpOnCrash")
    assert dead.returncode != 0  # why `session.start` tries a second time

    file.write_bytes(whole)
    os.utime(jar, (1, 1))  # Java compares it, too
    changed = ran(archive.using(file), log)
    assert FROM_ARCHIVE not in loaded(changed)
    assert classes.archive(settings, Path(found[0]), Path(_find_spark_home())).file is None

    file.write_bytes(b"\0" * len(whole))
    assert archive.file == file  # as long as it was made: only Java can see what it is
    broken = ran(archive.using(file))
    assert broken.returncode == 0
    assert "/" in broken.stdout
    assert len((broken.stdout + broken.stderr).splitlines()) == 1  # and not a word of the archive


def test_a_start_with_an_archive_prints_nothing_about_log_levels_or_classes(tmp_path):
    config = configuration.load(start=tmp_path, profile="default")
    settings = session.settings(config)
    archive = session.class_archive(config, settings)
    assert isinstance(archive, classes.Archive)
    with classes.workplace() as place:
        (place / "archive.jsa").write_bytes(b"not classes")
        file = classes.keep(archive, place / "archive.jsa")
    assert session.refusal(config, archive, file)
    start = (
        "import sys, json; from pyspark import SparkConf; from pyspark.java_gateway import launch_gateway;"
        "conf = SparkConf(False).setAll(json.loads(sys.argv[1]).items());"
        "gateway = launch_gateway(conf); gateway.shutdown(); gateway.proc.stdin.close(); gateway.proc.wait()"
    )
    chosen = json.dumps(classes.replaced(settings, archive.using(file)))
    done = subprocess.run([sys.executable, "-c", start, chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "SharedArchiveFile" in chosen
    assert [line for line in done.stderr.splitlines() if "incubator modules" not in line] == []


@pytest.mark.full
@pytest.mark.slow("makes an archive and starts Spark three times")
def test_doctor_makes_an_archive_that_the_next_start_uses_and_no_start_needs(tmp_path):
    log = tmp_path / "classes-%p.log"
    project = tmp_path / "project"
    project.mkdir()
    (project / "twice.toml").write_text(
        '[stores.lake]\ntype = "iceberg"\n[profiles.default.spark]\n"spark.master" = "local[2]"\n'
        f'"spark.driver.extraJavaOptions" = "-Xlog:class+load=info:file={log}"\n'
    )
    start = (
        "from types import SimpleNamespace; from twice import Day, Pipeline, config;"
        "from twice.engine.spark import session; from twice.engine.spark.environment import environment;"
        "spark = session.start(config.load()); spark.sql('show namespaces in lake').collect();"
        "print(environment(SimpleNamespace(spark=spark), Pipeline('p', grain=Day))['jars'])"
    )

    said: list[str] = []
    reported: list[str] = []

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=project, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        reported.append(done.stderr)
        return done.stdout

    def from_archive() -> bool:
        lines = [line for file in tmp_path.glob("classes-*.log") for line in file.read_text().splitlines()]
        (line,) = [line for line in lines if "] org.apache.iceberg.spark.SparkCatalog " in line]
        return FROM_ARCHIVE in line

    def started() -> bool:
        for file in tmp_path.glob("classes-*.log"):
            file.unlink()
        said.append(call("-c", start).splitlines()[-1])  # a Java that dies reports it before
        return from_archive()

    assert "no class-data archive yet" in call("-m", "twice", "doctor")
    warmed = call("-m", "twice", "doctor", "--warm")
    (file,) = classes.folder().iterdir()
    assert str(file) in warmed
    assert started()
    with_a_hole(file)
    assert not started()
    assert f"Java did not start with the class-data archive {file}" in reported[-1]
    assert not file.exists()
    assert not started()
    assert "archive" not in reported[-1]
    assert "iceberg" in said[0]
    assert len(set(said)) == 1  # what is recorded of a run names the jars, wherever they are
