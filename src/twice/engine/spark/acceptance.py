"""Whether Java accepts a class-data archive: checked strictly, in about a second, without starting Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

# The settings that make up the command of a start; no other setting of a profile is needed on a command line.
_OF_JAVA = (
    "spark.master",
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
)
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_LONGEST = 120


def refusal(settings: Mapping[str, str], java: Path, spark_home: Path) -> str:
    """Return why Java does not start with the archive that the settings name; empty if it does."""
    command = _command(settings, java, spark_home)
    if _MAIN not in command:  # a launcher with another answer: the next start reports the problem
        return ""
    options = command[1 : command.index(_MAIN)]
    # Java must have the archive, and adds up its checksums.
    done = _run([command[0], *options, "-Xshare:on", "-XX:+VerifySharedSpaces", "-version"])
    if not done.returncode:
        return ""
    printed = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    # The first line reports that there is an error, and the second one which.
    return next(iter(printed[1:2] or printed), f"it ended with {done.returncode}")


def _command(settings: Mapping[str, str], java: Path, spark_home: Path) -> list[str]:
    """Return the command with which Spark starts Java, by Spark's own launcher."""
    named = [word for name in _OF_JAVA if name in settings for word in ("--conf", f"{name}={settings[name]}")]
    launcher = [str(java), "-Xmx128m", "-cp", str(spark_home / "jars" / "*"), "org.apache.spark.launcher.Main"]
    # The launcher requires a version of Scala, which only builds from source use.
    around = {"SPARK_HOME": str(spark_home), "SPARK_SCALA_VERSION": os.environ.get("SPARK_SCALA_VERSION", "2.13")}
    done = _run([*launcher, _MAIN, *named, "pyspark-shell"], **around)
    # Each word ends with a zero; before the first there may be an empty one.
    return [word.lstrip("\n") for word in done.stdout.split("\0") if word.strip()]


def _run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        timeout=_LONGEST,
    )
