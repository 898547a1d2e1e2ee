"""Ledgers of both kinds with a clock that stands still."""

from __future__ import annotations

from tests.ledger.conftest import clock, kind, ledger, new_url, quick_dir, schema_url

__all__ = ["clock", "kind", "ledger", "new_url", "quick_dir", "schema_url"]
