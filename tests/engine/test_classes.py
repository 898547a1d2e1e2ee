"""The class-data archive of Java: which start has one, what is said when none is used, and what Java makes of it."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from twice import config as configuration
from twice.engine import doctor, warming
from twice.engine.spark import classes, jars, session
from twice.errors import EnvironmentProblem

VARIABLES = (
    *("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_DRIVER_MEMORY"),
    *("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_PREPEND_CLASSES", "PYSPARK_SUBMIT_ARGS"),
)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A Java, a Spark and one jar of ours, all empty files, with a cache of their own."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = SimpleNamespace(java=tmp_path / "jdk/bin/java", spark=tmp_path / "spark", jar=tmp_path / "lake.jar")
    files = ["jdk/bin/java", "jdk/release", "jdk/lib/modules", "lake.jar"]
    for name in (*files, "spark/jars/slf4j-api-2.jar", "spark/jars/spark-core.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found.settings = {"spark.master": "local[2]", "spark.jars": str(found.jar)}
    found.archive = lambda **more: classes.archive({**found.settings, **more}, found.java, found.spark)
    found.obstacle = lambda given=None, **more: classes.obstacle(
        {**found.settings, **(given or {}), **more}, given or {}, found.spark
    )
    return found


@pytest.fixture
def another_user(tmp_path):
    """Be a user whom the modes of files stop, as they do not stop root."""
    places = [tmp_path, *(place for place in tmp_path.parents if Path(tempfile.gettempdir()) in place.parents)]
    modes = [place.stat().st_mode & 0o7777 for place in places]

    @contextmanager
    def being():
        root = os.geteuid() == 0
        if root:
            for place in places:
                place.chmod(0o755)
            os.seteuid(65534)
        try:
            yield
        finally:
            if root:
                os.seteuid(0)

    yield being
    for place, mode in zip(places, modes, strict=True):
        place.chmod(mode)
    for place in (tmp_path / "cache").rglob("*"):
        if place.is_dir():
            place.chmod(0o700)


@pytest.fixture
def homeless(monkeypatch):
    """A user of a container that has neither HOME nor an entry in its list of users."""

    def unknown(_number):
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


def made(archive: classes.Archive, content: bytes = b"classes") -> Path:
    """Keep an archive of this content."""
    with classes.workplace() as place:
        written = place / "archive.jsa"
        written.write_bytes(content)
        return classes.keep(archive, written)


# -- which archive


def test_the_same_start_has_the_same_archive(machine):
    assert machine.archive() == machine.archive()


@pytest.mark.parametrize(
    "changed", ["jdk/release", "jdk/lib/modules", "lake.jar", "spark/jars/spark-core.jar", "spark/jars/new.jar"]
)
def test_another_java_spark_or_jar_has_another_archive(machine, tmp_path, changed):
    before = machine.archive().key
    (tmp_path / changed).write_text("something else")
    assert machine.archive().key != before


def test_a_jar_that_was_only_written_again_has_another_archive(machine):
    before = machine.archive().key
    os.utime(machine.jar, (1, 1))
    assert machine.archive().key != before


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"])
def test_options_of_java_count_but_for_properties_and_how_it_compiles(machine, monkeypatch, variable):
    before = machine.archive().key
    monkeypatch.setenv(variable, "-Dname=value -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
    assert machine.archive().key == before
    monkeypatch.setenv(variable, "-XX:+UseSerialGC")
    assert machine.archive().key != before


def test_fractions_of_a_second_which_the_layers_of_an_image_drop_do_not_count(machine):
    os.utime(machine.jar, ns=(1_900_000_000, 1_900_000_000))
    before = machine.archive().key
    os.utime(machine.jar, (1, 1))
    assert machine.archive().key == before


def test_the_memory_of_the_driver_counts(machine):
    assert machine.archive(**{"spark.driver.memory": "40g"}).key != machine.archive().key


# -- what a start is given


def test_without_an_archive_a_start_is_as_it_was(machine):
    assert machine.archive().file is None


def test_with_an_archive_the_jars_stand_behind_those_of_spark_on_the_class_path(machine):
    settings = {**machine.settings, "spark.driver.extraJavaOptions": "-Xss4m"}
    archive = machine.archive(**settings)
    file = made(archive)
    found = classes.replaced(settings, archive.using(file))
    places = found["spark.driver.extraClassPath"].split(":")
    own = machine.spark / "jars"
    assert places == [str(own / "slf4j-api-2.jar"), str(own / "*"), str(machine.jar)]
    assert found["spark.driver.extraJavaOptions"].startswith(f'-Xss4m "-XX:SharedArchiveFile={file}" -Xshare:auto')
    assert "spark.jars" not in found


@pytest.mark.parametrize("content", [b"", b"shorter", b"something longer"])
def test_a_file_that_is_not_as_long_as_it_was_made_is_not_used(machine, content):
    file = made(machine.archive(), b"class data")
    file.chmod(0o600)
    file.write_bytes(content)
    assert machine.archive().file is None


def test_an_archive_is_kept_for_every_user_to_read_and_none_to_write(machine):
    assert made(machine.archive()).stat().st_mode & 0o777 == 0o444


def test_a_file_that_may_not_be_read_is_not_used(machine, another_user):
    file = made(machine.archive())
    file.chmod(0)
    with another_user():
        assert machine.archive().file is None


def test_a_cache_that_may_not_be_read_is_one_without_an_archive(machine, another_user):
    made(machine.archive())
    classes.folder().parent.chmod(0)
    with another_user():
        assert machine.obstacle() == ""
        assert machine.archive().file is None
        assert jars.missing(("group:artifact:1",)) == ["group:artifact:1"]


def test_a_user_without_a_home_has_no_archive(machine, homeless):
    assert "no home" in machine.obstacle()
    assert not jars.is_fetched(machine.jar)
    assert jars.settings(()) == {}
    with pytest.raises(EnvironmentProblem, match="XDG_CACHE_HOME"):
        jars.missing(("group:artifact:1",))


def test_doctor_names_what_a_user_without_a_home_lacks(machine, homeless, tmp_path):
    config = configuration.load(start=tmp_path, profile="default")
    assert not doctor.jar_files(config).ok
    assert "XDG_CACHE_HOME" in doctor.jar_files(config).next_step
    assert doctor.jar_files(replace(config, packages=())).ok
    assert doctor.class_archive(config).ok
    assert doctor.disk(config).ok


# -- who gets none


def test_a_local_start_with_its_jars_has_no_obstacle(machine):
    assert machine.obstacle() == ""


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "k8s://https://host", "spark://host:7077"])
def test_a_cluster_gets_none(machine, master):
    assert machine.obstacle({"spark.master": master}) == f"Spark runs on {master}"


@pytest.mark.parametrize(
    "name", ["spark.driver.extraClassPath", "spark.driver.userClassPathFirst", "spark.jars", "spark.remote"]
)
def test_settings_of_the_profile_that_decide_the_class_path_are_left_alone(machine, name):
    assert machine.obstacle({name: "theirs"}) == f"{name} is set"


def test_a_class_path_that_a_store_of_a_package_sets_is_left_alone(machine):
    assert machine.obstacle(**{"spark.driver.extraClassPath": "its.jar"}) == "spark.driver.extraClassPath is set"


@pytest.mark.parametrize("variable", ["PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"])
def test_a_spark_that_is_started_elsewhere_or_otherwise_is_left_alone(machine, monkeypatch, variable):
    monkeypatch.setenv(variable, "sc://host")
    assert machine.obstacle() == f"{variable} is set"


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine"])
def test_an_archive_of_the_users_own_is_left_alone(machine, monkeypatch, option):
    assert "name an archive" in machine.obstacle(**{"spark.driver.extraJavaOptions": option})
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", option)
    assert "name an archive" in machine.obstacle()


def test_jars_that_are_not_there_yet_come_as_before(machine):
    assert "fetched" in machine.obstacle(**{"spark.jars.packages": "a:b:1"})


def test_a_folder_of_settings_on_the_class_path_allows_none(machine):
    (machine.spark / "conf").mkdir()
    assert machine.obstacle() == ""
    (machine.spark / "conf/spark-defaults.conf").touch()
    assert f"{machine.spark / 'conf'} is on Java's class path" in machine.obstacle()


def test_a_path_that_java_would_read_as_two_allows_none(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    assert "a path" in machine.obstacle()


# -- how it is kept


def test_two_that_make_the_same_archive_do_no_harm(machine):
    archive = machine.archive()
    with classes.workplace() as one, classes.workplace() as other:
        first, second = one / "archive.jsa", other / "archive.jsa"
        first.write_bytes(b"one")
        second.write_bytes(b"another")
        assert classes.keep(archive, first).read_bytes() == b"one"
        assert archive.file is not None
        assert archive.file.read_bytes() == b"one"
        assert classes.keep(archive, second) == archive.file
        assert archive.file.read_bytes() == b"another"


def test_the_two_newest_archives_stay(machine, monkeypatch):
    kept = []
    for number in range(4):
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Xss{number}m")
        kept.append(made(machine.archive()))
        os.utime(kept[-1], (1_000_000 + number, 1_000_000 + number))
    abandoned = classes.folder() / ".making-1"
    abandoned.mkdir()
    os.utime(abandoned, (1, 1))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xss9m")
    last = made(machine.archive())
    assert sorted(classes.folder().iterdir()) == sorted([kept[-1], last])


# -- how it is made


@pytest.fixture
def project(machine, monkeypatch, tmp_path):
    """A project whose start of Spark has an archive."""
    monkeypatch.setattr(session, "class_archive", lambda _config: machine.archive())
    monkeypatch.setattr(session, "refusal", lambda *_: "")
    return configuration.load(start=tmp_path, profile="default")


def ends_with(monkeypatch, code: str) -> None:
    """Let the process that makes the archive run this code; `sys.argv[1]` is the file to write."""
    real = warming.subprocess.Popen
    monkeypatch.setattr(
        warming.subprocess, "Popen", lambda command, **how: real([sys.executable, "-c", code, command[-1]], **how)
    )


def test_what_a_process_leaves_behind_is_kept(project, machine, monkeypatch):
    ends_with(monkeypatch, "import sys; open(sys.argv[1], 'w').write('class data')")
    file = warming.make(project)
    assert file.read_text() == "class data"
    assert machine.archive().file == file
    assert [file] == list(classes.folder().iterdir())


def test_an_archive_that_is_there_stays(project, machine, monkeypatch):
    file = made(machine.archive())
    ends_with(monkeypatch, "raise SystemExit('not to be started')")
    assert warming.make(project) == file


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit('Spark did not start')", "Spark did not start"),
        ("import sys; open(sys.argv[1], 'w'); raise SystemExit('the disk is full')", "the disk is full"),
        ("pass", "this Java writes none"),
    ],
)
def test_a_process_that_fails_leaves_nothing_behind(project, machine, monkeypatch, code, reason):
    ends_with(monkeypatch, code)
    with pytest.raises(EnvironmentProblem, match=reason) as raised:
        warming.make(project)
    assert raised.value.unchanged == "Spark starts without one, as before"
    assert machine.archive().file is None
    assert list(classes.folder().iterdir()) == []


def test_an_archive_that_java_refuses_is_made_again(project, machine, monkeypatch):
    file = made(machine.archive(), b"refused")
    monkeypatch.setattr(
        session, "refusal", lambda _config, _archive, file: "" if b"fine" in file.read_bytes() else "no"
    )
    ends_with(monkeypatch, "import sys; open(sys.argv[1], 'w').write('all is fine')")
    assert warming.make(project) != file
    assert not file.exists()
    assert machine.archive().file.read_bytes() == b"all is fine"


def test_an_archive_that_java_refuses_is_not_kept(project, machine, monkeypatch):
    monkeypatch.setattr(session, "refusal", lambda *_: "checksum verification failed")
    ends_with(monkeypatch, "import sys; open(sys.argv[1], 'w').write('class data')")
    with pytest.raises(EnvironmentProblem, match="does not accept it: checksum verification failed"):
        warming.make(project)
    assert list(classes.folder().iterdir()) == []


def test_the_reason_comes_by_a_file_and_not_by_what_java_printed_last(project, monkeypatch):
    code = "import sys; open(sys.argv[1][:-4] + '.reason', 'w').write('no such jar'); raise SystemExit('noise')"
    ends_with(monkeypatch, code)
    with pytest.raises(EnvironmentProblem, match="could not be made: no such jar"):
        warming.make(project)


def test_a_process_that_is_interrupted_leaves_nothing_behind_and_no_process(project, monkeypatch, tmp_path):
    held = tmp_path / "held"
    java = (
        f"import fcntl, time; file = open({str(held)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('begun', flush=True); time.sleep(300)"
    )
    ends_with(
        monkeypatch,
        "import os, signal, subprocess, sys, time;"
        f"java = subprocess.Popen([sys.executable, '-c', {java!r}], stdout=subprocess.PIPE); java.stdout.readline();"
        "os.kill(os.getppid(), signal.SIGINT); time.sleep(300)",
    )
    # A shell that starts the tests in the background has them ignore the signal.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            warming.make(project)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert list(classes.folder().iterdir()) == []
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the system has ended its holder


def test_a_line_is_reported_before_spark_starts_and_for_an_archive_that_is_there(project, machine, monkeypatch):
    lines: list[str] = []
    ends_with(monkeypatch, "import sys; open(sys.argv[1], 'w').write('class data')")
    file = warming.make(project, lines.append)
    warming.make(project, lines.append)
    assert [line.partition(":")[0] for line in lines] == [
        "making the class-data archive of Java",
        "the class-data archive already exists",
    ]
    assert lines[-1].endswith(str(file))


def test_stores_that_are_left_out_are_named(project, machine, monkeypatch, tmp_path):
    (tmp_path / "twice.toml").write_text('[stores.lake]\ntype = "iceberg"\ncatalog = "spark"\n')
    lines: list[str] = []
    ends_with(monkeypatch, "import sys; open(sys.argv[1], 'w').write('class data')")
    warming.make(configuration.load(tmp_path / "twice.toml"), lines.append)
    assert "not among them: lake" in lines[-1]


def test_a_cache_that_cannot_be_written_is_an_answer(project, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        warming.make(project)


def test_where_no_archive_can_be_used_none_is_made(project, monkeypatch):
    monkeypatch.setattr(session, "class_archive", lambda _config: "Spark runs on yarn")
    with pytest.raises(EnvironmentProblem, match="Spark runs on yarn") as raised:
        warming.make(project)
    assert raised.value.unchanged == "Spark starts without one, as before"


# -- where the process that makes it writes


REAL = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "https://catalog.example",
    "spark.sql.catalog.lake.warehouse": "s3://production/warehouse",
    "spark.hadoop.fs.defaultFS": "hdfs://production",
    "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
}


@pytest.mark.parametrize("options", ["", 'catalog = "spark"\n', 'warehouse = "/production"\n'])
def test_nothing_of_a_profile_leads_the_warming_process_to_a_real_catalog(tmp_path, options):
    lines = "".join(f'"{name}" = "{value}"\n' for name, value in REAL.items())
    project = tmp_path / "twice.toml"
    project.write_text(f'[stores.lake]\ntype = "iceberg"\n{options}[profiles.default.spark]\n{lines}')
    config = configuration.load(project)
    folder = tmp_path / "apart"
    found = warming.elsewhere(config, folder)
    settings = session.settings(found)
    assert not {*settings.values()} & {*REAL.values()} - {"org.apache.iceberg.spark.SparkCatalog"}
    assert all("lake" not in name for name in (*found.stores, *settings))
    places = [value for name, value in settings.items() if name.endswith((".warehouse", ".uri", "warehouse.dir"))]
    assert places
    assert all(str(folder) in place for place in places)
    assert str(folder) in found.ledger


def test_the_warming_process_starts_java_as_the_profile_does(tmp_path):
    theirs = {"spark.master": "local[3]", "spark.driver.memory": "3g", "spark.driver.extraJavaOptions": "-Xss4m"}
    lines = "".join(f'"{name}" = "{value}"\n' for name, value in theirs.items())
    project = tmp_path / "twice.toml"
    project.write_text(f'[stores.mine]\ntype = "iceberg"\n[profiles.default.spark]\n{lines}')
    config = configuration.load(project)
    settings, given = session.settings(warming.elsewhere(config, tmp_path / "apart")), session.settings(config)
    assert theirs.items() <= settings.items()
    assert settings.get("spark.jars") == given.get("spark.jars")
    assert settings.get("spark.jars.packages") == given.get("spark.jars.packages")


def test_the_folder_lies_beside_the_jars(machine):
    assert classes.folder().parent == jars.cache().parent
