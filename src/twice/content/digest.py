"""The content of a set of rows as one small value that can be stored, compared and added."""

from __future__ import annotations

import re
from dataclasses import dataclass

from twice.errors import DefinitionError

_TEXT = re.compile(r"(\d+)-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)")


@dataclass(frozen=True)
class Digest:
    """Row count, two exact hash sums and the schema's fingerprint: equal content, equal digest.

    >>> day = Digest(rows=2, sum1=255, sum2=16, schema="0c")
    >>> day.text
    '2-ff-10-0c'
    >>> Digest.parse(day.text) == day
    True
    """

    rows: int
    sum1: int
    sum2: int
    schema: str

    @property
    def text(self) -> str:
        """The form that is stored and shown."""
        return f"{self.rows}-{self.sum1:x}-{self.sum2:x}-{self.schema}"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read the form that `text` gives."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise DefinitionError(f"{text!r} is not a content digest: it must read rows-sum-sum-schema")
        rows, sum1, sum2, schema = match.groups()
        return cls(int(rows), int(sum1, 16), int(sum2, 16), schema)

    @classmethod
    def empty(cls, schema: str) -> Digest:
        """The digest of no rows under a schema fingerprint."""
        return cls(0, 0, 0, schema)

    def __add__(self, other: Digest) -> Digest:
        """The digest of the rows of both, which must not be the same rows."""
        if not self.rows or not other.rows:  # without rows the schemas need not agree
            return self if self.rows else other
        if self.schema != other.schema:
            raise DefinitionError(f"digests of different schemas cannot be added: {self.schema} and {other.schema}")
        return Digest(self.rows + other.rows, self.sum1 + other.sum1, self.sum2 + other.sum2, self.schema)
