"""What code fingerprints are made of: kept once, so that a code change can be named."""

from __future__ import annotations

import json
from collections.abc import Mapping

import sqlalchemy as sa

from twice.ledger.db.database import insert_missing
from twice.ledger.db.encoding import to_text
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import codes


class Codes(LedgerPart):
    """The part of the ledger that keeps what code fingerprints are made of."""

    def keep(self, code: str, parts: Mapping[str, str]) -> None:
        """Record what a code is made of; the first record counts."""
        with self._write() as connection:
            insert_missing(connection, codes, [{"id": code, "parts": to_text(dict(parts))}])

    def parts(self, code: str) -> dict[str, str] | None:
        """Return what a code is made of; None if it was not kept."""
        with self._read() as connection:
            text = connection.scalar(sa.select(codes.c.parts).where(codes.c.id == code))
        return None if text is None else dict(json.loads(text))
