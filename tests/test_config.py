"""`twice.toml`: what it may hold, and the sentence for each thing it may not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from twice import config
from twice.errors import ConfigError

FULL = """
on_failure = "alerts:notify"
[pipelines]
shop = "jobs.shop:shop"
[ledger]
url = "sqlite:///state/ledger.db"
[lease]
seconds = 2.5
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "postgresql://u:${LAKE_PASSWORD}@host/catalog"
[profiles.default.spark]
"spark.master" = "local[2]"
[profiles.prod]
packages = ["org.example:${LAKE_PASSWORD}:1"]
ledger = { url = "postgresql://u:${LAKE_PASSWORD}@host/db" }
[profiles.prod.spark]
"spark.sql.shuffle.partitions" = 8
"spark.speculation" = true
[profiles.prod.stores.lake]
warehouse = "s3://bucket/lake"
[profiles.prod.stores.extra]
type = "iceberg"
"""
CATALOG = "postgresql://u:s3cret@host/catalog"


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch):
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    monkeypatch.setenv("LAKE_PASSWORD", "s3cret")


@pytest.fixture
def write(tmp_path):
    def written(text: str | bytes, name: str = config.FILE) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_a_full_file(write, tmp_path):
    found = config.load(write(FULL))
    assert (found.profile, found.source, found.root) == ("default", tmp_path / "twice.toml", tmp_path)
    assert found.pipelines == {"shop": "jobs.shop:shop"}
    assert found.ledger == f"sqlite:///{tmp_path}/state/ledger.db"
    assert found.store("lake").options == {"warehouse": "warehouse", "catalog": CATALOG}
    assert found.spark == {"spark.master": "local[2]"}
    assert (found.lease, found.on_failure, found.packages) == (timedelta(seconds=2.5), "alerts:notify", None)


def test_a_profile_changes_what_it_names(write, monkeypatch):
    path = write(FULL)
    found = config.load(path, "prod")
    assert found.ledger == "postgresql://u:s3cret@host/db"
    assert found.spark == {"spark.sql.shuffle.partitions": "8", "spark.speculation": "true"}
    assert found.store("lake").options == {"warehouse": "s3://bucket/lake", "catalog": CATALOG}
    assert set(found.stores) == {"lake", "extra"}
    assert found.packages == ("org.example:s3cret:1",)
    monkeypatch.setenv("TWICE_PROFILE", "prod")
    assert config.load(path) == found


def test_without_a_file_everything_lives_below_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = config.load()
    assert (found.source, found.root, found.ledger) == (None, tmp_path, f"sqlite:///{tmp_path}/.twice/ledger.db")
    assert found.store("lake").type == "iceberg"
    assert config.load(start=Path()) == found


def test_an_absolute_ledger_path_stays(write):
    assert config.load(write('ledger.url = "sqlite:////var/l.db"')).ledger == "sqlite:////var/l.db"


def test_the_file_is_found_in_the_folders_above(write, tmp_path, monkeypatch):
    path = write(FULL)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    assert config.find(tmp_path / "a" / "b") == path
    assert config.find(Path("b")) == path
    assert config.load().root == tmp_path


def test_pyproject_serves_too(write, tmp_path):
    path = write('[project]\nname = "x"\n[tool.twice.pipelines]\nshop = "jobs:shop"\n', "pyproject.toml")
    assert config.find(tmp_path) == path
    assert config.load(start=tmp_path).pipelines == {"shop": "jobs:shop"}
    write("", config.FILE)
    assert config.find(tmp_path).name == config.FILE


@pytest.mark.parametrize("text", ["[tool.twiceness]\nx = 1", "# see [tool.twice]\n[tool.ruff]", "[project]"])
def test_a_pyproject_of_others_is_passed_by(write, tmp_path, text):
    path = write(text, "pyproject.toml")
    assert config.find(tmp_path) != path
    with pytest.raises(ConfigError, match=r"pyproject.toml has no \[tool.twice\]"):
        config.load(path)


STORE = '[stores.lake]\ntype = "iceberg"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[pipelines", "is not valid TOML: Expected"),
        (b"\xff\xfe", "is not valid TOML"),
        ("pipeline = 1", "has pipeline, which twice does not know; it knows: audit, lease, ledger, on_failure"),
        ("[ledger]\nuri = 'x'", "[ledger] of"),
        ("[lease]\nminutes = 1", "has minutes, which twice does not know; it knows: seconds"),
        ("[profiles.default]\nsparks = 1", "it knows: ledger, packages, spark, stores"),
        ("pipelines = 3", "[pipelines] in"),
        ("[pipelines]\nshop = 'jobs.shop'", "shop in twice.toml must look like \"module:object\", not 'jobs.shop'"),
        ("[pipelines]\nshop = ':shop'", 'must look like "module:object"'),
        ("[pipelines]\nshop = 5", 'must look like "module:object", not 5'),
        ("stores = 'lake'", "[stores] in twice.toml must be a table, not a text"),
        ("[stores]\nlake = 'iceberg'", "[stores.lake] in twice.toml must be a table"),
        ("[stores.lake]\nwarehouse = 'x'", "[stores.lake] in twice.toml: type is None; it must be one of: iceberg"),
        ("[stores.lake]\ntype = 'excel'", "type is 'excel'; it must be one of: iceberg"),
        ("[stores.lake]\ntype = ['iceberg']", "it must be one of: iceberg"),
        (STORE + "warehouse = ['a']", "[stores.lake] warehouse in twice.toml must be a text, not a list"),
        (STORE + "warehouse = '${NOT_SET}'", "uses ${NOT_SET}, but the environment has no NOT_SET"),
        ("[stores]\nlake = 'x'\n[profiles.default.stores.lake]\na = 'b'", "[lake] in twice.toml must be a table"),
        (STORE + "[profiles.default.stores]\nlake = 'x'", "[lake] in twice.toml must be a table, not a text"),
        ("ledger = 'postgresql://u:hunter2@h/d'", "[ledger] in twice.toml must be a table, not a text"),
        ("[profiles.default]\nledger = 'postgresql://u:hunter2@h/d'", "[ledger] in twice.toml must be a table"),
        ("[ledger]\nurl = 5", "[ledger] url in twice.toml must be a text, not a number or date"),
        ("on_failure = ['a']", "on_failure in twice.toml must be a text, not a list"),
        ("[lease]\nseconds = 0", "must be a number above 0 and up to a day, not 0"),
        ("[lease]\nseconds = '60'", "must be a number above 0 and up to a day, not '60'"),
        ("[lease]\nseconds = true", "not True"),
        ("[lease]\nseconds = nan", "not nan"),
        ("[lease]\nseconds = inf", "not inf"),
        ("lease = 60", "[lease] in twice.toml must be a table"),
        ("profiles = 1", "[profiles] in twice.toml must be a table"),
        ("[profiles]\ndefault = 1", "[default] in twice.toml must be a table"),
        ("[profiles.default]\npackages = 'a:b:1'", "packages in [profiles.default] of twice.toml must be a list"),
        ("[profiles.default]\npackages = [1]", "packages in twice.toml must be a text, not a number"),
        (
            "[profiles.default]\nspark.sql.shuffle.partitions = 2",
            'sql is a table; put the whole name of a Spark setting in quotes, such as "spark.sql.shuffle.partitions"',
        ),
        ("[profiles.default.spark]\nx = ['a']", "[profiles.default.spark] x in twice.toml must be a text, not a list"),
        ("[profiles.default.spark]\nx = 2026-04-25", "must be a text, not a number or date"),
    ],
)
def test_a_broken_file_gets_its_sentence(write, text, sentence, monkeypatch):
    path = write(text)
    monkeypatch.chdir(path.parent)
    with pytest.raises(ConfigError) as caught:
        config.load(Path(config.FILE))
    assert sentence in caught.value.message
    assert "hunter2" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("piplines.a = 'b:c'", "twice.toml has piplines, which twice does not know"),
        ("[ledger]\nurll = 'x'", "[ledger] of twice.toml has urll, which twice does not know; it knows: url. Did you"),
        ("[lease]\nsecond = 1", "Did you mean seconds?"),
        ("[pools.night]\nweigth = 1", "Did you mean weight?"),
        ("[profiles.default]\nsparks = 1", "Did you mean spark?"),
        ("[profiles.prod]\npackage = ['a']", "[profiles.prod] of twice.toml has package, which twice does not know"),
        ("[profiles.prod.ledger]\nurll = 'x'", "[profiles.prod.ledger] of twice.toml has urll"),
        ("ledger.urll = 'x'\n[profiles.default.ledger]\nurl = 'sqlite:///x'", "[ledger] of twice.toml has urll"),
        (STORE + "warehose = 'x'", "[stores.lake] of twice.toml has warehose, which twice does not know; it knows: "),
        (STORE + "warehose = 'x'", "Did you mean warehouse?"),
        (STORE + "zzz = 'x'", "it knows: catalog, type, warehouse"),
        (STORE + "a.b = 'x'", "[stores.lake] of twice.toml has a.b, which twice does not know"),
        ("[stores.app]\ntype = 'sql'\nurll = 'x'", "Did you mean url?"),
        ("[stores.app]\ntype = 'delta'\nwarehouse = 'x'", "it knows: catalog, path, type"),
        ("[stores.app]\ntype = 'parquet'\nwarehouse = 'x'", "it knows: path, type"),
        ("[stores.app]\ntype = 'catalog'\nurl = 'x'", "it knows: catalog, type"),
        ("[stores.app]\ntype = 'files'\nheader = true", "it knows: format, option.NAME, path, type"),
        (STORE + "[profiles.prod.stores.lake]\nwarehose = 'x'", "[profiles.prod.stores.lake] of twice.toml has wareho"),
        ("[profiles.prod.stores.app]\ntype = 'sql'\nurll = 'x'", "[profiles.prod.stores.app] of twice.toml has urll"),
    ],
)
def test_a_misspelt_key_is_refused_in_every_section_and_every_profile(write, text, sentence, monkeypatch):
    monkeypatch.chdir(write(text).parent)
    with pytest.raises(ConfigError) as caught:
        config.load(Path(config.FILE))
    assert sentence in caught.value.message


def test_free_keys_stay_free(write):
    text = "[stores.drop]\ntype = 'files'\npath = 'in'\nformat = 'csv'\noption.anything = true\n"
    found = config.load(write(text + '[profiles.default.spark]\n"spark.anything.at.all" = 1'))
    assert found.store("drop").options["option.anything"] == "true"
    assert found.spark == {"spark.anything.at.all": "1"}


def test_a_profile_may_change_the_type_of_a_store_and_needs_only_its_own_secrets(write):
    text = (
        "[stores.app]\ntype = 'sql'\nurl = 'sqlite:///a.db'\n"
        "[profiles.prod.stores.app]\nurl = 'postgresql://u:${NOT_SET}@h/d'\n"
        "[profiles.lab.stores.app]\ntype = 'parquet'\n"
    )
    assert config.load(write(text)).store("app").options == {"url": "sqlite:///a.db"}
    assert config.load(write(text), "lab").store("app") == config.StoreConfig("app", "parquet", {})


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\ntwice = 5"])
def test_a_broken_pyproject_gets_its_sentence(write, text):
    with pytest.raises(ConfigError, match="must be a table, not a number"):
        config.load(write(text, "pyproject.toml"))


def test_a_missing_variable_says_how_to_give_it(write):
    with pytest.raises(ConfigError) as caught:
        config.load(write(STORE + "catalog = '${NOT_SET}'"))
    assert caught.value.next_step == "export NOT_SET=…"


def test_an_unknown_profile_is_named_with_the_known_ones(write, monkeypatch):
    with pytest.raises(ConfigError, match=r"no profile 'test' in .*; there are: default, prod"):
        config.load(write(FULL), "test")
    monkeypatch.setenv("TWICE_PROFILE", "test")
    with pytest.raises(ConfigError, match="no profile 'test'"):
        config.load(write(FULL))
    with pytest.raises(ConfigError, match=r"no profile 'prod' in .*; there are: default"):
        config.load(write(""), "prod")


def test_an_unknown_store_is_named_with_the_known_ones(write):
    found = config.load(write(FULL))
    with pytest.raises(ConfigError, match=r"no store 'sea' in .*twice.toml; there are: lake") as caught:
        found.store("sea")
    assert caught.value.next_step == 'add [stores.sea] with type = "iceberg"'


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "no.toml", tmp_path):
        with pytest.raises(ConfigError, match="there is no configuration file"):
            config.load(path)


def test_a_file_that_cannot_be_read(write, monkeypatch):
    path = write(FULL)

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError, match=r"twice.toml cannot be read: Permission denied"):
        config.load(path)


def test_a_variable_of_a_failure_command_is_left_to_the_shell(write, monkeypatch):
    monkeypatch.setenv("CHANNEL", "ops; touch executed")
    assert config.load(write('on_failure = "notify ${CHANNEL}"')).on_failure == "notify ${CHANNEL}"


def test_a_variable_of_a_failure_function_is_filled_in(write, monkeypatch):
    monkeypatch.setenv("TEAM", "alerts")
    assert config.load(write('on_failure = "${TEAM}.hooks:notify"')).on_failure == "alerts.hooks:notify"


def test_a_variable_that_a_failure_command_misses_is_an_error(write):
    with pytest.raises(ConfigError, match=r"on_failure in .* uses \$\{NO_SUCH_NAME\}"):
        config.load(write('on_failure = "notify ${NO_SUCH_NAME}"'))
