"""Databases for the tests of the SQL store."""

from __future__ import annotations

import pytest

from tests.store import databases


@pytest.fixture(params=["sqlite", "postgres", "other"])
def place(request, tmp_path) -> databases.SqlDatabase:
    """A fresh database of each kind; `other` is Postgres, reached as any further database would be."""
    if request.param == "sqlite":
        return databases.sqlite_place(tmp_path)
    url = request.getfixturevalue("postgres_database")
    return databases.postgres_place(url, other=request.param == "other")


@pytest.fixture
def pg(postgres_database) -> databases.SqlDatabase:
    """A fresh Postgres database."""
    return databases.postgres_place(postgres_database)
