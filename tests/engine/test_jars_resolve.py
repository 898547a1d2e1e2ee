"""Every package that twice names can be fetched, by Spark's own resolver and its settings."""

from __future__ import annotations

import pytest
from pyspark.java_gateway import launch_gateway

from twice.config import StoreConfig
from twice.engine.spark import jars
from twice.store.delta import store_type as delta_row
from twice.store.iceberg import store_type as iceberg_row

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def resolver():
    """Spark's resolver, in a JVM without a session."""
    gateway = launch_gateway()
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)


@pytest.mark.parametrize("package", jars.every_package())
def test_a_package_is_there_to_be_fetched(resolver, tmp_path, package):
    maven, option = resolver.org.apache.spark.util.MavenUtils, resolver.scala.Option
    quiet = resolver.java.io.PrintStream(resolver.java.io.ByteArrayOutputStream())
    settings = maven.buildIvySettings(option.empty(), option.apply(str(tmp_path)), True, quiet)
    nothing = maven.IVY_DEFAULT_EXCLUDES().take(0)
    found = maven.resolveMavenCoordinates(package, settings, option.empty(), False, nothing, False, quiet)
    group, artifact, version = package.split(":")
    assert found.mkString().endswith(f"{group}_{artifact}-{version}.jar")


def test_every_package_of_every_spark_version_is_among_them():
    stores = [
        StoreConfig("lake", "iceberg", {"catalog": "sqlite:///lake.db"}),
        StoreConfig("shared", "iceberg", {"catalog": "postgresql://db/lake"}),
    ]
    delta = StoreConfig("delta", "delta", {})
    named = {
        package
        for spark in iceberg_row.RUNTIMES
        for package in jars.default_packages(f"{spark}.0", [*stores, *([delta] if spark in delta_row.RUNTIMES else [])])
    }
    assert named == set(jars.every_package())
