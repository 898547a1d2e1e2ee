"""Store types by name: the rows of twice, and those that installed packages add by an entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tables import extracting
from tests.support.tiny_store import TINY, TinyStore
from twice import Day, Overwrite, Table
from twice import config as configuration
from twice.engine.attempt.retries import is_transient
from twice.engine.stores import Stores
from twice.errors import ConfigError
from twice.store import registry

ROW = "tests.support.tiny_store:TINY"
SECTION = '[stores.box]\ntype = "tiny"\npath = "box"\n'


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package on the path that has an entry point of the group, as pip leaves it."""

    def installed(name: str = "tiny", value: str = ROW, package: str = "acme-tiny") -> None:
        folder = tmp_path / package / f"{package.replace('-', '_')}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {value}\n")
        monkeypatch.syspath_prepend(str(folder.parent))

    return installed


def load(folder: Path, text: str) -> configuration.Config:
    (folder / "twice.toml").write_text(text)
    return configuration.load(folder / "twice.toml")


def test_every_row_of_twice_is_found_under_its_name():
    assert registry.type_names() == ("iceberg", "delta", "parquet", "sql", "files", "catalog")
    for name in registry.type_names():
        row = registry.store_type(name)
        assert row.name == name
        assert set(row.places) <= set(row.keys)
        assert set(row.local.options if row.local else ()) <= set(row.keys)


def test_a_configuration_is_read_without_spark_or_a_driver(tmp_path):
    types = {"iceberg": "", "delta": "", "parquet": "", "sql": 'url = "sqlite:///x.db"', "catalog": "", "files": ""}
    text = "".join(f'[stores.{name}]\ntype = "{name}"\n{more}\n' for name, more in types.items())
    (tmp_path / "twice.toml").write_text(text)
    code = (
        "import sys; from pathlib import Path; from twice import config; from twice.store import registry\n"
        "config.load(Path('twice.toml')); list(registry.usable_types())\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'sqlalchemy', 'psycopg'}))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (said.stdout.strip(), said.stderr) == ("[]", "")


def test_a_package_adds_a_type(install, tmp_path):
    # Given a package with a row for the type
    install()
    # When a configuration names it
    config = load(tmp_path, SECTION)
    # Then its store is opened, and its verbs are those of any other
    table = Table("box.core.t")
    store = Stores(config).of(table)
    assert isinstance(store, TinyStore)
    assert (store.folder, store.exists(None, table), store.token(None, table)) == (tmp_path / "box", False, 0)
    # And its keys are checked, and its errors known
    with pytest.raises(ConfigError, match=r"has paht, which twice does not know; it knows: path, type. Did you mean"):
        load(tmp_path, SECTION.replace("path", "paht"))
    assert TINY in registry.usable_types()


def test_an_unknown_type_is_answered_with_all_that_are_known(install, tmp_path):
    install()
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, SECTION.replace('"tiny"', '"tinny"'))
    assert refused.value.message.endswith(
        "type is 'tinny'; it must be one of: iceberg, delta, parquet, sql, files, catalog, tiny. Did you mean tiny?"
    )


def test_a_package_cannot_take_the_name_of_a_type_of_twice(install, tmp_path):
    install("iceberg")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, '[stores.lake]\ntype = "iceberg"')
    assert refused.value.message == (
        "the store type 'iceberg' is defined by twice and by the package acme-tiny: one name, one type"
    )
    # What does not use the name is not disturbed.
    assert load(tmp_path, '[stores.plain]\ntype = "parquet"').store("plain").type == "parquet"


def test_two_packages_cannot_share_a_name(install, tmp_path):
    install()
    install(package="other-tiny")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, SECTION)
    assert "the package acme-tiny" in refused.value.message
    assert "the package other-tiny" in refused.value.message


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("acme_gone:ROW", "ModuleNotFoundError: No module named 'acme_gone'"),
        ("tests.support.tiny_store:GONE", "has no attribute 'GONE'"),
        ("tests.support.tiny_store:TinyStore", "tests.support.tiny_store:TinyStore must be a StoreType, got type"),
        ("tests.support.tiny_store:NAMED_OTHERWISE", "its entry point is named 'tiny', and its row 'small'"),
    ],
)
def test_a_broken_package_is_named_when_its_type_is_used(install, tmp_path, value, why):
    install(value=value)
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, SECTION)
    assert refused.value.message.startswith("the store type 'tiny' of the package acme-tiny cannot be used: ")
    assert refused.value.message.endswith(why)
    # What does not use it works.
    assert load(tmp_path, '[stores.plain]\ntype = "parquet"').store("plain").type == "parquet"
    assert [row.name for row in registry.usable_types()] == ["iceberg", "delta", "parquet", "sql", "files", "catalog"]


def test_the_errors_that_a_package_names_are_transient(install):
    from py4j.protocol import Py4JError

    assert not is_transient(Py4JError("TinyDiskIsBusy"))
    install()
    assert is_transient(Py4JError("TinyDiskIsBusy"))


def test_tests_may_name_the_type_of_a_package(install):
    from twice.testing.trials import config_for

    install()
    pipeline = extracting(Table("box.core.t", partition=Day("d"), write=Overwrite()), lambda *_: None)
    found = config_for(pipeline, {"box": "tiny"}).store("box")
    assert (found.type, found.options["path"].endswith("/tiny/box")) == ("tiny", True)


@pytest.mark.spark
def test_a_step_writes_to_a_store_of_a_package_and_runs_twice(install, lab):
    # Given a step that writes a day of a table in it
    install()
    lab.declare(SECTION)
    table = Table("box.core.t", partition=Day("d"), key=["id"], write=Overwrite())
    numbers = {"n": 1}

    def rows(spark, window):
        return spark.range(3).selectExpr("id", f"id + {numbers['n']} as n", f"date'{window.start.date()}' as d")

    pipeline = extracting(table, rows)
    store = Stores(lab.config).of(table)
    # When two days are run, and one of them again
    assert [lab.run(pipeline, day).steps[0].status for day in ("2026-04-25", "2026-04-26")] == ["published"] * 2
    before = (store.folder / "box.core.t.json").read_text()
    again = lab.run(pipeline, "2026-04-25").steps[0]
    # Then the second run changes nothing
    assert (again.status, store.version(lab.spark, table)) == ("unchanged", "2")
    assert (store.folder / "box.core.t.json").read_text() == before
    # And a changed day replaces its own rows alone
    numbers["n"] = 5
    assert lab.run(pipeline, "2026-04-25").steps[0].status == "published"
    assert sorted((str(row.d), row.n) for row in store.read(lab.spark, table, "3").collect()) == [
        *(("2026-04-25", n) for n in (5, 6, 7)),
        *(("2026-04-26", n) for n in (1, 2, 3)),
    ]
    assert store.staged_tokens(lab.spark, table) == []
    assert lab.ledger.leases.list() == []
