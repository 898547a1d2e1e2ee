"""The house itself: what is promised about packaging, set-up and the rules of the tools."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements-dev.lock").read_text()


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_importing_twice_imports_no_spark():
    code = "import sys, twice; assert not {'pyspark', 'py4j'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_bare_package_asks_for_no_spark():
    assert "pyspark" not in {name_of(line) for line in PYPROJECT["project"]["dependencies"]}
    assert "pyspark" in {name_of(line) for line in PYPROJECT["project"]["optional-dependencies"]["spark"]}


def test_every_ruff_exception_carries_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    rules = PYPROJECT["tool"]["ruff"]["lint"]
    ignored = [*rules["ignore"], *(code for codes in rules["per-file-ignores"].values() for code in codes)]
    with_reason = re.findall(r'^    "([A-Z]+\d*)", +# \S.+$', text, flags=re.MULTILINE)
    assert sorted(with_reason) == sorted(ignored)


# The statements of one migration stay together.
LONG = {"upgrade"}


@pytest.mark.parametrize("package", ["engine", "store", "ledger", "backfills", "streams", "effects", "verify", "cli"])
def test_functions_and_files_stay_short(package):
    files = sorted((ROOT / "src" / "twice" / package).rglob("*.py"))
    assert files
    for file in files:
        text = file.read_text()
        assert text.count("\n") <= 400, file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in LONG:
                assert node.end_lineno - node.lineno < 60, f"{file}:{node.lineno} {node.name}"


def test_the_lock_names_no_host_and_hashes_everything():
    assert "://" not in LOCK
    assert not re.search(r"^--(extra-)?index|^--find-links|^-[ief] |^--trusted", LOCK, flags=re.MULTILINE)
    entries = re.split(r"^(?=\w)", LOCK, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_lock_holds_what_pyproject_asks_for():
    asked = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["dev"]]
    locked = {name_of(line) for line in LOCK.splitlines() if re.match(r"\w", line)}
    assert {name_of(line) for line in asked} - locked == set(), "run `make lock`"


def test_every_dependency_has_its_reason_in_contributing():
    groups = [
        PYPROJECT["project"]["dependencies"],
        *PYPROJECT["project"]["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    asked = {name_of(line) for group in groups for line in group} - {"twice"}
    explained = set(re.findall(r"^- `([\w.-]+)`[^:]*: \S", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert asked - explained == set()


def test_ci_runs_make_test():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert "make test" in run.read_text().splitlines()


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").iterdir()), ids=lambda path: path.name)
def test_scripts_run_in_a_plain_shell(script):
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n")
    assert subprocess.run(["sh", "-n", script]).returncode == 0


def test_the_wheel_holds_every_file_of_the_package(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    package = ROOT / "src"
    ours = {
        path.relative_to(package).as_posix()
        for path in (package / "twice").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "twice/py.typed" in ours
    assert ours - set(zipfile.ZipFile(wheel).namelist()) == set()


class Machine:
    """A machine with a few commands on PATH, and our set-up scripts in an empty folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        shutil.copytree(ROOT / "scripts", root / "project" / "scripts")
        for name in ("cat", "cut", "dirname", "env", "head", "id", "ls", "mkdir", "rm", "sed", "sh", "tr"):
            (self.bin / name).symlink_to(shutil.which(name))

    def command(self, name: str, body: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def java(self, name: str, version: str) -> None:
        self.command(name, f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")

    def set_up_java(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "project" / "scripts" / "setup-java"],
            env={"PATH": str(self.bin), "JVM_ROOT": str(self.root / "jvm"), "APT_LISTS": "/nowhere"} | environment,
            capture_output=True,
            text=True,
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_java_17_on_path_is_taken(machine):
    machine.java("java", "17.0.15")
    done = machine.set_up_java()
    assert (done.returncode, done.stderr) == (0, "")


def test_without_java_root_installs_it_after_filling_empty_package_lists(machine):
    machine.command("id", "echo 0")
    machine.java("java-of-the-package", "17.0.15")
    machine.command(
        "apt-get",
        f'echo "$*" >>{machine.root}/log\n'
        f"[ $1 = update ] || {shutil.which('cp')} {machine.bin}/java-of-the-package {machine.bin}/java",
    )
    done = machine.set_up_java()
    assert done.returncode == 0, done.stderr
    log = (machine.root / "log").read_text().splitlines()
    assert log == ["update", "install -y --no-install-recommends openjdk-17-jre-headless"]
    assert machine.set_up_java().stderr == ""
    assert (machine.root / "log").read_text().splitlines() == log


def test_without_java_and_without_rights_the_command_to_run_is_named(machine):
    machine.command("id", "echo 1000")
    machine.command("apt-get", "exit 99")
    machine.java("java", "1.8.0_292")
    done = machine.set_up_java()
    assert done.returncode == 1
    assert "Java 8 on PATH; Spark needs Java 17 or newer" in done.stderr
    assert "sudo apt-get install -y --no-install-recommends openjdk-17-jre-headless" in done.stderr


def test_a_java_17_beside_the_old_one_is_found(machine):
    machine.java("java", "11.0.2")
    home = machine.root / "jvm" / "java-17-openjdk"
    (home / "bin").mkdir(parents=True)
    machine.java("java-17", "17.0.15")
    (home / "bin" / "java").symlink_to(machine.bin / "java-17")
    done = machine.set_up_java()
    assert done.returncode == 0
    assert f"export JAVA_HOME={home}" in done.stderr
    shown = subprocess.run(
        [machine.root / "project" / "scripts" / "with-spark", "sh", "-c", 'echo "$JAVA_HOME"'],
        env={"PATH": str(machine.bin)},
        capture_output=True,
        text=True,
    )
    assert shown.stdout.strip() == str(home)


def test_a_wrong_java_home_is_named(machine):
    machine.java("java", "17.0.15")
    done = machine.set_up_java(JAVA_HOME="/no/such/home")
    assert done.returncode == 1
    assert "JAVA_HOME=/no/such/home holds no Java that runs" in done.stderr
    assert "unset it" in done.stderr


def set_up_postgres(machine):
    return subprocess.run(
        [machine.root / "project" / "scripts" / "setup-postgres"],
        env={"PATH": str(machine.bin), "POSTGRES_ROOT": str(machine.root), "APT_LISTS": "/nowhere"},
        capture_output=True,
        text=True,
    )


def test_a_postgres_server_and_a_pooler_that_are_there_are_taken(machine):
    machine.command("initdb", "exit 0")
    machine.command("pgbouncer", "exit 0")
    done = set_up_postgres(machine)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_postgres_and_without_rights_the_command_to_run_is_named(machine):
    # Nothing of the machine that runs this test is found: neither its server nor its pooler is on PATH.
    if Path("/usr/sbin/pgbouncer").exists():
        script = machine.root / "project" / "scripts" / "setup-postgres"
        script.write_text(script.read_text().replace(":/usr/sbin:/usr/local/sbin", ""))
    machine.command("id", "echo 1000")
    machine.command("apt-get", "exit 1")
    done = set_up_postgres(machine)
    assert done.returncode == 1
    assert "sudo apt-get install -y --no-install-recommends postgresql pgbouncer" in done.stderr
