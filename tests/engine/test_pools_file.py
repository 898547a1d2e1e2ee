"""The pools of a profile are written where no other user of the machine can change them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from twice import config
from twice.engine.spark import session


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A temporary directory that other users may write to as well."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def pools(tmp_path):
    (tmp_path / "twice.toml").write_text("[pools.small]\nweight = 1\n")
    return config.load(tmp_path / "twice.toml")


def predictable(shared: Path) -> Path:
    return shared / f"twice-pools-{os.getuid()}"


def test_the_pools_are_written_to_a_folder_of_ones_own_and_found_there_again(shared, pools):
    file = session.pools_file(pools)
    assert file.parent == predictable(shared)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert session.pools_file(pools) == file
    assert "small" in file.read_text()


def test_a_link_that_another_user_left_there_is_not_followed(shared, pools, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    predictable(shared).symlink_to(elsewhere)
    file = session.pools_file(pools)
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "small" in file.read_text()


def test_a_folder_that_others_may_write_to_is_not_used(shared, pools):
    predictable(shared).mkdir()
    predictable(shared).chmod(0o777)
    file = session.pools_file(pools)
    assert file.parent != predictable(shared)
    assert list(predictable(shared).iterdir()) == []


def test_a_folder_of_another_user_is_not_used(shared, pools, monkeypatch):
    predictable(shared).mkdir(mode=0o700)
    owner = os.getuid()
    there = predictable(shared)
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    predictable(shared).mkdir(mode=0o700)  # made by `owner`, under the name of the user that twice runs as
    file = session.pools_file(pools)
    assert file.parent not in {there, predictable(shared)}
    assert list(predictable(shared).iterdir()) == []
