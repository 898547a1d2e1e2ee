"""The commit that a project's code is at: with git and without it, changed and unchanged."""

from __future__ import annotations

import os
import subprocess

import pytest

from twice.code.repository import commit_at, forget


@pytest.fixture(autouse=True)
def _as_a_new_process():
    forget()


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path):
    """A folder of a repository with an odd name, and one commit."""
    root = tmp_path / 'it\'s "a" prójekt'
    (root / "jobs").mkdir(parents=True)
    git(root, "init", "--quiet")
    (root / "jobs" / "shop.py").write_text("A = 1\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_a_commit_is_found_from_a_folder_below_and_asked_for_once(project, monkeypatch):
    found = commit_at(project / "jobs")
    assert (found.id, found.dirty) == (git(project, "rev-parse", "HEAD"), False)
    monkeypatch.setenv("PATH", "")  # a second question would find no git
    assert commit_at(project) is found


def test_changed_and_new_code_is_dirty_and_other_files_are_not(project, monkeypatch):
    (project / "ledger.db").write_text("data")
    assert not commit_at(project).dirty
    for change in (project / "jobs" / "shop.py", project / "jobs" / "new.sql"):
        forget()
        change.write_text("B = 2\n")
        assert commit_at(project).dirty
        change.unlink()
        git(project, "checkout", "--quiet", ".")


def test_without_git_a_repository_or_a_commit_there_is_none(project, tmp_path, monkeypatch):
    assert commit_at(tmp_path / "nowhere") is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    assert commit_at(tmp_path / "empty") is None
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    assert commit_at(tmp_path / "broken") is None
    monkeypatch.setattr(os, "environ", {**os.environ, "PATH": ""})
    assert commit_at(project) is None
